# shellcheck shell=bash
#
# run.sh: the fuzz targets that run in a server process.
#
# Sourced by test/fuzz/run.  Such a target is linked with the whole extension
# into a library, which a server in single-user mode loads; libFuzzer runs in
# that process.  AddressSanitizer cannot be loaded into it: the target puts its
# input before a page that may not be read, and what is undefined traps.

# shellcheck source=test/lib/stage.sh
. test/lib/stage.sh

SERVER_SANITIZERS=(-fsanitize=undefined -fsanitize-trap=undefined -fno-omit-frame-pointer)
SERVER_LENGTH=4096
# The server's readers, as far as they can be linked once more.
PG_READERS=(src/common/jsonapi.c src/backend/utils/adt/{jsonb,jsonb_util,jsonfuncs,jsonpath,jsonpath_exec,jsonpath_gram,numeric}.c)

# Build the library of the target $1.
build_for_server() {
	local source runtime
	local -a flags

	bootstrap
	runtime=$("$CLANG" -print-file-name="libclang_rt.fuzzer_no_main-$(uname -m).a")
	read -r -a flags < <("$PG_CONFIG" --cppflags)
	flags+=("${FLAGS[@]}" "${SERVER_SANITIZERS[@]}" -I"$("$PG_CONFIG" --includedir-server)" -fPIC -DAL_LIBFUZZER
		-Wno-sign-compare -Wno-missing-field-initializers -Wno-ignored-attributes -Wno-string-concatenation -Wno-macro-redefined)
	rm -rf "$FOLDER/server"
	mkdir -p "$FOLDER/server"
	for source in src/*.c src/rules/*.c src/wire/*.c; do
		printf '%s\n' "$source" -o "$FOLDER/server/$(tr / _ <<<"$source").o"
	done | xargs -P "$(nproc)" -n 3 "$CLANG" "${flags[@]}" -fsanitize=fuzzer-no-link -c
	if [[ -n ${FUZZ_PG_SOURCE:-} ]]; then
		for source in "${PG_READERS[@]}"; do
			"$CLANG" "${flags[@]}" -w -fsanitize=fuzzer-no-link -I"$FUZZ_PG_SOURCE/src/backend/utils/adt" \
				-c -o "$FOLDER/server/pg_$(basename "$source").o" "$FUZZ_PG_SOURCE/$source"
		done
	fi
	for source in "$1" module; do
		"$CLANG" "${flags[@]}" -c -o "$FOLDER/server/target_$source.o" "test/fuzz/server/$source.c"
	done
	"$CLANG" -shared -Wl,-Bsymbolic -o "$FOLDER/$1.so" "$FOLDER"/server/*.o "$runtime" -lcurl -lstdc++ -lm
}

# Run the target $1 for its time, as an ordinary user in a private folder.
run_in_server() {
	local bin data status=0
	local -a switch options=(-max_total_time="$SECONDS_EACH" -max_len="$SERVER_LENGTH" -timeout=10 -rss_limit_mb=0
		-use_value_profile=1 -print_final_stats=1)

	bin=$("$PG_CONFIG" --bindir)
	WORK=$(mktemp -d /tmp/actionledger.XXXXXX)
	data=$WORK/data
	mkdir "$WORK/corpus" "$WORK/kept" "$WORK/found"
	cp "$FOLDER/$1.so" "$WORK/"
	cp -r "$FOLDER/corpus/$1/." "$WORK/corpus"
	cp -r "test/fuzz/corpus/$1/." "$WORK/kept"
	options+=(-artifact_prefix="$WORK/found/$1-")
	if [[ -f test/fuzz/server/$1.dict ]]; then
		cp "test/fuzz/server/$1.dict" "$WORK/"
		options+=(-dict="$WORK/$1.dict")
	fi
	give_to_ordinary_user "$WORK"
	(
		cd "$WORK"
		"${switch[@]}" "$bin/initdb" -D "$data" -U postgres -A trust -N --encoding=UTF8 --no-locale >initdb.log
		printf '%s\n' "CREATE FUNCTION fuzz_search(text) RETURNS int LANGUAGE c AS '$WORK/$1.so'" \
			"SELECT fuzz_search('${options[*]} $WORK/corpus $WORK/kept')" |
			"${switch[@]}" "$bin/postgres" --single -D "$data" -c log_min_messages=fatal postgres
	) || status=$?
	cp -r "$WORK/corpus/." "$FOLDER/corpus/$1"
	cp -r "$WORK/found/." "$FOLDER/found"
	[[ -z $(ls "$WORK/found") ]] || status=1
	rm -rf "$WORK"
	return "$status"
}
