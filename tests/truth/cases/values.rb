# What values look like.

class Case::Values
  Point = Struct.new(:x, :y)

  def show(x)
    x
  end
end

values = Case::Values.new
point = Case::Values::Point.new(1, 2)
deep = [1, [2, [3, [4, [5]]]]]

[
  ["nil", "nil", nil],
  ["true", "true", true],
  ["an Integer", "-42", -42],
  ["a large Integer", (2**64).to_s, 2**64],
  ["a Float", "1.5", 1.5],
  ["a Float without a fraction", "3.0", 3.0],
  ["infinity", "-Infinity", -Float::INFINITY],
  ["not a number", "NaN", Float::NAN],
  ["a Symbol", ":tea", :tea],
  ["a Symbol with a space", ':"two words"', :"two words"],
  ["an operator", ":<=>", :<=>],
  ["a String", '"tea"', "tea"],
  ["a quoted String", '"a\"b\\\\c"', "a\"b\\c"],
  ["control characters", '"\a\b\t\n\v\f\r\e\x00\x7F"', "\a\b\t\n\v\f\r\e\0\x7f"],
  ["interpolation", '"\#{x} \#$y #z"', '#{x} #$y #z'],
  ["UTF-8", '"Käse €😀"', "Käse €😀"],
  ["C1 controls", '"\xC2\x85"', "\u0085"],
  ["bidi and invisible characters", '"\u202E\u200B\u2028\uFEFF\u00AD\u{E0001}"', "\u202E\u200B\u2028\uFEFF\u00AD\u{E0001}"],
  ["bytes", '"\xFF\xFEa"', "\xff\xfea".b],
  ["broken UTF-8", '"a\xC3"', "a\xc3"],
  ["Latin 1", '"K\xE4se"', "Käse".encode("ISO-8859-1")],
  ["UTF-16", '"t\x00e\x00a\x00"', "tea".encode("UTF-16LE")],
  ["an empty Array", "[]", []],
  ["an Array", '[1, :a, "b", nil]', [1, :a, "b", nil]],
  ["a deep Array", "[1, [2, [3, [...]]]]", deep],
  ["a long Array", "[#{(1..16).to_a.join(", ")}, ...] (20 elements)", (1..20).to_a],
  ["a Hash", '{:a=>1, "b"=>[2]}', { a: 1, "b" => [2] }],
  ["an empty Hash", "{}", {}],
  ["a Range", "1...5", 1...5],
  ["an endless Range", "1..", (1..)],
  ["a Struct", "#<struct Values::Point x=1, y=2>", point],
  ["a Class", "Values", Case::Values],
  ["a Module", "Comparable", Comparable],
  ["an object", "#<Object>", Object.new],
  ["a Proc", "#<Proc>", proc {}],
  ["a Method", "#<Method: Integer#+>", 1.method(:+)],
  ["a Regexp", "/a/", /a/],
  ["a Time", "1970-01-01 00:00:00 UTC", Time.at(0).utc],
  ["a Rational", "(1/2)", Rational(1, 2)],
  ["a Thread", "#<Thread main>", Thread.main],
  ["an exception as a value", "#<ArgumentError: no>", ArgumentError.new("no")],
  ["a BasicObject", "#<BasicObject>", BasicObject.new],
  ["a long String", "\"#{"x" * 239}...\" (300 bytes)", "x" * 300],
  ["a String that ends within a character", "\"#{"€" * 79}...\" (300 bytes)", "€" * 100],
].each do |name, shown, value|
  truth("#{name} is shown", "Values#show(x=#{shown}) => #{shown}\n") { values.show(value) }
end
