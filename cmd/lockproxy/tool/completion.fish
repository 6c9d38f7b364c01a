# fish completion of lockproxy: lockproxy completion fish | source
function __lockproxy_suggest
	set -l words (commandline -opc) (commandline -ct)
	set -l all ($words[1] completion suggest -- $words[2..-1] 2>/dev/null)
	switch "$all[1]"
		case ':files*'
			set -l flag (string match -r -- '^--[^=]*=' $words[-1])
			for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' $words[-1]))
				echo "$flag$path"
			end
		case ':command*'
			set -l i (contains -i -- -- $words)
			complete -C (string join -- ' ' (string escape -- $words[(math $i + 1)..-2]) $words[-1])
		case '*'
			printf '%s\n' $all
	end
end
complete -c lockproxy -f -a '(__lockproxy_suggest)'
