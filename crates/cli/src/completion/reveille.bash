# Completions of reveille for bash 4.4 and newer: the program lists the candidates.
_reveille() {
    local word words=()
    # bash makes `=` a word of its own.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD}"; do
        [[ $word == = ]] || words+=("$word")
    done
    mapfile -t COMPREPLY < <(REVEILLE_COMPLETE=bash _CLAP_COMPLETE_INDEX=${#words[@]} \
        reveille -- "${words[@]}" "$2" 2>/dev/null)
    # Quotes a name with a space (`haltpoll idle`) like a file's, and a folder that another user called `$(...)`.
    [[ ${COMPREPLY[*]} != *[!a-zA-Z0-9_.,:/=@%+-]* ]] || compopt -o filenames 2>/dev/null
    [[ ${COMPREPLY-} != *[=/:] ]] || compopt -o nospace 2>/dev/null
}
# Fall back to file names.
complete -o bashdefault -o default -o nosort -F _reveille reveille
