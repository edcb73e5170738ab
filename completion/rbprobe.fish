# Completion for fish. `rbprobe --complete WORD...` knows what there is: tracer/cli/complete.h.

function __rbprobe_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string unescape)
    # A quote that is still open.
    set -q current[1]; or set current (commandline -ct | string replace -r -- '^[\'"]' '')
    set -l option (string match -r -- '^--[a-z-]+=' $current)
    set -l lines ($words[1] --complete $words[2..-1] "$current" 2>/dev/null)
    for line in $lines
        switch $line
            case :files
                string replace -r '^' -- "$option" (__fish_complete_path (string replace -- "$option" '' "$current"))
            case :programs
                __fish_complete_command
            case '*'
                printf '%s\n' $line
        end
    end
    # A class alone would get a blank after its #, and could not go on: all of its methods are a choice, too.
    string match -q -- '*#'\t $lines; and test (count $lines) = 1; and string replace -r -- '#\t$' '#*' $lines
end

complete -c rbprobe -f -a '(__rbprobe_complete)'
