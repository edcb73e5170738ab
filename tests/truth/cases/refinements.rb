# Refinements: a refined method and the refinement's own, each by its caller's scope.

class Case::Plain
  def tone(x)
    x
  end

  def ask(x)
    tone(x)
  end
end

module Case::Louder
  refine(Case::Plain) do
    def tone(x)
      super(x * 2) + 1
    end

    def added(x)
      -x
    end
  end
end

module Case::Listening
  using Case::Louder

  def self.refined(plain, x)
    plain.tone(x)
  end

  def self.added(plain, x)
    plain.added(x)
  end

  def self.inside(plain, x)
    plain.ask(x)
  end
end

plain = Case::Plain.new
listening = Case::Listening

truth "a refined method, where nothing is refined", <<~TREE do
  Plain#tone(x=1) => 1
TREE
  plain.tone(1)
end

truth "a refined method, where the refinement is in force", <<~TREE do
  Listening.refined(plain=#<Plain>, x=2) => 5
    #<refinement:Plain@Louder>#tone(x=2) => 5
      Plain#tone(x=4) => 4
TREE
  listening.refined(plain, 2)
end

truth "a method that only the refinement has", <<~TREE do
  Listening.added(plain=#<Plain>, x=3) => -3
    #<refinement:Plain@Louder>#added(x=3) => -3
TREE
  listening.added(plain, 3)
end

truth "a refined method that is called from elsewhere", <<~TREE do
  Listening.inside(plain=#<Plain>, x=4) => 4
    Plain#ask(x=4) => 4
      Plain#tone(x=4) => 4
TREE
  listening.inside(plain, 4)
end
