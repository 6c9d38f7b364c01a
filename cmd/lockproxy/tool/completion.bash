# bash completion of lockproxy: source <(lockproxy completion bash)
_lockproxy() {
	local i word words=() cur line files=no
	COMPREPLY=()
	# bash takes = for the end of a word
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == "=" && ${#words[@]} -gt 0 ]]; then
			words[${#words[@]}-1]+="="
		elif [[ ${#words[@]} -gt 0 && ${words[${#words[@]}-1]} == --*= ]]; then
			words[${#words[@]}-1]+=$word
		else
			words+=("$word")
		fi
	done
	cur=${words[${#words[@]}-1]}
	if [[ ${COMP_WORDS[COMP_CWORD-1]} == -- ]]; then
		while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -c -- "$cur")
		return
	fi
	if [[ " ${COMP_WORDS[*]:0:COMP_CWORD} " == *" -- "* ]]; then
		files=yes
	else
		while IFS= read -r line; do
			case $line in
			:0) files=yes ;; # all that cobra says of what follows
			:*) ;;
			*)
				word=${line%%$'\t'*}
				[[ $word == "${cur#--*=}"* ]] && COMPREPLY+=("$word")
				;;
			esac
		done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
	fi
	if [[ $files == yes && ${#COMPREPLY[@]} -eq 0 ]]; then
		compopt -o filenames
		[[ $cur == --*=* ]] && cur=${cur#*=}
		while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
	fi
}
complete -F _lockproxy lockproxy
