# Completion for fish. `rbprobe --complete WORD...` knows what there is: tracer/cli/complete.h.

function __rbprobe_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l option (string match -r -- '^--[a-z-]+=' $current)
    for line in ($words[1] --complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                string replace -r '^' -- "$option" (__fish_complete_path (string replace -- "$option" '' "$current"))
            case :programs
                __fish_complete_command
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c rbprobe -f -a '(__rbprobe_complete)'
