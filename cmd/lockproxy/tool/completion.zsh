#compdef lockproxy
# zsh completion of lockproxy: source <(lockproxy completion zsh), behind compinit; or a file _lockproxy in fpath
_lockproxy() {
	local line word what i
	local -a described
	for line in "${(@f)$("${words[1]}" completion suggest -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		word=${line%%$'\t'*}
		what=${line#*$'\t'}
		case $word in
		'') ;;
		:files)
			compset -P '--*='
			_files
			;;
		:command)
			i=${words[(i)--]}
			shift $i words
			(( CURRENT -= i ))
			_normal
			;;
		*) described+=("${word//:/\\:}:$what") ;;
		esac
	done
	(( ${#described} )) && _describe lockproxy described
}
compdef _lockproxy lockproxy
