# What tests of `rbprobe stat` share: starting it, and its rows.

module StatRows
  # `rbprobe stat -p TARGET ARGUMENTS`, in the background, armed.
  def stat(target, *arguments)
    launch("stat", "-v", "--yes", "-p", target.pid.to_s, *arguments).wait_until_armed
  end

  def rows_of(result)
    assert_exit 0, result
    refute_match(/please report/, result.stderr)
    result.events("method")
  end

  def rows(result)
    rows_of(result).to_h { |row| [row.fetch("method"), row] }
  end

  # The same of a full trace: [calls, errors] by method.
  def counts_of_trace(result)
    calls = result.events("call")
    assert_equal 0, result.events("summary").last["lost"]
    calls.group_by { |call| call["method"] }.transform_values do |of_method|
      [of_method.size, of_method.count { |call| call["ended"] == "raised" }]
    end
  end

  def counts(rows)
    rows.transform_values { |row| row.values_at("calls", "errors") }
  end
end
