# Completion for bash. `rbprobe --complete WORD...` knows what there is: tracer/cli/complete.h.

_rbprobe()
{
	local current=${COMP_WORDS[COMP_CWORD]} word

	COMPREPLY=()
	[ "$current" != = ] || current=
	while IFS=$'\t' read -r word _; do
		case $word in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
			;;
		:programs)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
			;;
		*) COMPREPLY+=("$word") ;;
		esac
	done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _rbprobe rbprobe
