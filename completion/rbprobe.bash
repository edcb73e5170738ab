# Completion for bash. `rbprobe --complete WORD...` knows what there is: tracer/cli/complete.h.

# The line up to the cursor, in words as programs get them: bash cuts words also at COMP_WORDBREAKS, and leaves their quotes on.
# words; cut: what of the last one stands in front of the part that readline replaces; quote: it is open there.
_rbprobe_split()
{
	local line=${COMP_LINE:0:COMP_POINT} word= char begun= i

	words=() cut= quote=
	for ((i = 0; i < ${#line}; i++)); do
		char=${line:i:1}
		case $quote$char in
		"''" | '""') quote= cut=$word ;;
		"'"?) word+=$char ;;
		'"\') [[ ${line:i + 1:1} != [\$\`\"\\] ]] || char=${line:$((++i)):1} && word+=$char ;;
		'"'?) word+=$char ;;
		[\'\"]) quote=$char begun=1 cut=$word ;;
		'\') word+=${line:$((++i)):1} begun=1 ;;
		[[:space:]]) [ -z "$begun" ] || words+=("$word") && word= begun= cut= ;;
		*)
			# "--format =json", as it becomes where readline has added the blank.
			[[ $begun$char == = && ${words[*]: -1} == --* ]] && word=${words[*]: -1} && unset 'words[-1]'
			word+=$char begun=1
			[[ $COMP_WORDBREAKS != *"$char"* ]] || cut=$word
			;;
		esac
	done
	words+=("$word")
}

# As the line is to have it.
_rbprobe_quote()
{
	local word=$1 char i

	quoted=$word
	[[ $word == *[\|\&\;\(\)\<\>\$\`\"\'\\\*\?\[\]\{\}\!\~\^\ ]* && $quote != \' ]] || return 0
	quoted=
	for ((i = 0; i < ${#word}; i++)); do
		char=${word:i:1}
		case $quote$char in
		'"'[\$\`\"\\] | [\|\&\;\(\)\<\>\$\`\"\'\\\*\?\[\]\{\}\!\~\^\ ]) quoted+=\\ ;;
		esac
		quoted+=$char
	done
}

# Those of several words may begin with the same backslash, but go on with different characters: readline would write it.
_rbprobe_unquote()
{
	local common=${COMPREPLY[0]} word

	for word in "${COMPREPLY[@]}"; do
		while [[ $word != "$common"* ]]; do
			common=${common%?}
		done
	done
	[[ $common == *\\ && $common != *\\*\\ ]] && COMPREPLY=("${plain[@]}")
}

_rbprobe()
{
	local words cut quote quoted word option= current
	local -a plain=() files

	COMPREPLY=()
	_rbprobe_split
	current=${words[${#words[@]} - 1]}
	[[ $current != --*=* ]] || option=${current%%=*}=
	while IFS=$'\t' read -r word _; do
		case $word in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t files < <(compgen -P "$option" -f -- "${current#"$option"}")
			COMPREPLY+=("${files[@]#"$cut"}")
			;;
		:programs)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
			;;
		*)
			# Within " the history is expanded, and no backslash keeps it from that.
			[[ $quote == \" && ${word%!} == *!* ]] && continue
			_rbprobe_quote "${word#"$cut"}"
			COMPREPLY+=("$quoted") plain+=("${word#"$cut"}")
			;;
		esac
	done < <("${words[0]/#\~\//$HOME/}" --complete "${words[@]:1}" 2>/dev/null)
	if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[#.:] ]]; then
		compopt -o nospace 2>/dev/null
	elif [ ${#plain[@]} -gt 1 ]; then
		_rbprobe_unquote
	fi
	return 0
}

complete -F _rbprobe rbprobe
