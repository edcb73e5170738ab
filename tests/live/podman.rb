# Podman's containers, with root and without.

require_relative "containers"

module Podman
  include Containers

  # Podman with that runtime; before: a command that runs the one which follows.
  def use_podman(runtime, *before)
    only_with_tools("podman", runtime)
    @tool = [*before, "podman", "--runtime", runtime]
    @root ||= root_directory
    only_where_containers_run
  end

  alias podman tool

  def image(root)
    ["--rootfs", root]
  end

  def remove(name)
    podman("rm", "-f", "-t", "0", name)
  end
end
