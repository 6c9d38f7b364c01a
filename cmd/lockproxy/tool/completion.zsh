#compdef lockproxy
# zsh completion of lockproxy: source <(lockproxy completion zsh), behind compinit; or a file _lockproxy in fpath
_lockproxy() {
	local line word what files=no i
	local -a described
	i=${words[(i)--]}
	if (( i < CURRENT )); then
		shift $i words
		(( CURRENT -= i ))
		_normal
		return
	fi
	for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		word=${line%%$'\t'*}
		what=${line#*$'\t'}
		case $line in
		:0) files=yes ;;  # all that cobra says of what follows
		'' | :*) ;;
		*) described+=("${word//:/\\:}:$what") ;;
		esac
	done
	compset -P '--*='
	if (( ${#described} )); then
		_describe lockproxy described
	elif [[ $files == yes ]]; then
		_files
	fi
}
compdef _lockproxy lockproxy
