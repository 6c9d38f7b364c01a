# fish completion of lockproxy: lockproxy completion fish | source
function __lockproxy_suggest
	set -l words (commandline -opc) (commandline -ct)
	if set -l i (contains -i -- -- $words[1..-2])
		complete -C (string join -- ' ' (string escape -- $words[(math $i + 1)..-2]) $words[-1])
		return
	end
	set -l flag (string match -r -- '^--[^=]*=' $words[-1])
	set -l all ($words[1] __complete $words[2..-1] 2>/dev/null)
	if test "$all[1]" = ':0' # all that cobra says: files
		for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' $words[-1]))
			echo "$flag$path"
		end
		return
	end
	for line in $all[1..-2]
		echo "$flag$line"
	end
end
complete -c lockproxy -f -a '(__lockproxy_suggest)'
