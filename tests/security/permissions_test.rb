# What the application allows (Rbprobe.allow) holds for clients that are no rbprobe, too.

require_relative "helper"

class PermissionsTest < SecurityTest
  test "a second trace in a session, which is refused, has no say in what the first one needs" do
    owner = user
    target = start("console", user: owner)
    target.run("class Shop; def price; end; end; 1")
    path = directory
    FileUtils.chown(owner, owner, path)
    client = start_as(owner, program("two_traces"), target.pid, path)
    client.expect("0 ")
    client.expect("#{Errno::EBUSY::Errno} this session traces already")
    target.run("Rbprobe.allow = [:trace]")
    client.expect(/\A2 the application does not allow eval, which .*; it allows trace\z/)
    assert_predicate client.wait.last, :success?
    assert_equal "nil", target.run("Shop.new.price")
  end
end
