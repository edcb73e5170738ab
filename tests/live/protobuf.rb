# What an export in protobuf says, as protoc prints it.

require "open3"

module Protobuf
  # As the message of a schema, here of our own. A test without protoc, or without exports in protobuf, is skipped.
  def protobuf_text(bytes, schema, message, directory: "#{Processes::ROOT}/tracer/export")
    skip "needs protoc" unless system("command -v protoc >/dev/null")
    skip "rbprobe was built without libprotobuf-c" if rbprobe("--version").stdout.include?("without libprotobuf-c")
    text, status = Open3.capture2("protoc", "-I", directory, "--decode=#{message}", schema, stdin_data: bytes, binmode: true)
    assert_predicate status, :success?
    text
  end
end
