# bash completion of lockproxy: source <(lockproxy completion bash)
_lockproxy() {
	local i word words=() cur line shown
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
	while IFS= read -r line; do
		word=${line%%$'\t'*}
		case $word in
		:files)
			compopt -o filenames
			while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -f -- "${cur#--*=}")
			;;
		:command)
			if [[ ${COMP_WORDS[COMP_CWORD-1]} == -- ]]; then
				while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -c -- "$cur")
			else
				compopt -o filenames
				while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -f -- "$cur")
			fi
			;;
		--*=*) COMPREPLY+=("${word#*=}") ;;
		*) COMPREPLY+=("$word") ;;
		esac
	done < <("${COMP_WORDS[0]}" completion suggest -- "${words[@]}" 2>/dev/null)
}
complete -F _lockproxy lockproxy
