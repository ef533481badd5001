#!/bin/bash
#
# smoke.sh
#		Shows that the test provider does what README.md says.
#
# usage: smoke.sh PROVIDER-BINARY, with curl and python3 in the path.  TAP on stdout.

set -u
provider=${1:?usage: smoke.sh PROVIDER-BINARY}
dir=$(mktemp -d)
count=0
failed=0
pids=()

finish()
{
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
	wait
	rm -rf "$dir"
}
trap finish EXIT

# Starts a provider; sets port.
launch()
{
	local name=$1
	shift
	"$provider" --quiet --truth "$dir/$name.truth" --port-file "$dir/$name.port" "$@" &
	pids+=($!)
	for _ in $(seq 100); do [ -f "$dir/$name.port" ] && break; sleep 0.05; done
	port=$(cat "$dir/$name.port")
}

# Compares; is GOT WANTED CLAIM.
is()
{
	count=$((count + 1))
	if [ "$1" = "$2" ]; then
		echo "ok $count - $3"
	else
		failed=$((failed + 1))
		echo "not ok $count - $3"
		printf '# got:    %s\n# wanted: %s\n' "$1" "$2"
	fi
}

# Sends one request and prints "curl-code status"; send PATH [curl options].
send()
{
	local path=$1
	shift
	local status
	status=$(curl -s -o "$dir/body" -D "$dir/head" -m 1 -w '%{http_code}' -d '{"amount":700}' "$@" \
		"http://127.0.0.1:$port$path")
	echo "$? $status"
}

# Prints how many truth lines an operation has of each event; truth OP EVENT...
truth()
{
	python3 - "$dir/main.truth" "$@" <<-'PY'
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
		mine = [line["ev"] for line in lines if line["op"] == sys.argv[2]]
		print(*[mine.count(event) for event in sys.argv[3:]])
	PY
}

# Prints "received executed replayed answered" of an operation.
events()
{
	truth "$1" received executed replayed answered
}

# Sends raw bytes and prints what comes back; raw TEXT, with printf escapes.
raw()
{
	python3 - "$port" "$1" <<-'PY'
		import socket, sys
		s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		s.settimeout(2)
		s.sendall(sys.argv[2].encode("latin1").decode("unicode_escape").encode("latin1"))
		got = b""
		try:
		    while True:
		        data = s.recv(65536)
		        if not data:
		            break
		        got += data
		except TimeoutError:
		    got += b"<timeout>"
		except ConnectionResetError:
		    got += b"<reset>"
		print(got.decode("latin1").replace("\r\n", "|"))
	PY
}

launch main

# Keys
is "$(send /keyed/refunds -H 'Idempotency-Key: k1')" "0 200" "a keyed request is answered"
is "$(cat "$dir/body")" '{"id":"re_1","object":"refund","status":"succeeded","amount":700}' "with the refund"
is "$(send /keyed/refunds -H 'Idempotency-Key: k1')" "0 200" "the same key again is answered"
is "$(cat "$dir/body")" '{"id":"re_1","object":"refund","status":"succeeded","amount":700}' "with the same refund"
is "$(grep -ci '^Idempotent-Replayed: true' "$dir/head")" 1 "marked as a replay"
is "$(send /keyed/refunds -H 'Idempotency-Key: k1' -d '&x')" "0 422" "another body under that key is refused"
is "$(events k1)" "3 1 1 3" "one effect for three requests"
send '/unkeyed/refunds' -H 'X-Operation: u1' >/dev/null
send '/unkeyed/refunds' -H 'X-Operation: u1' >/dev/null
is "$(events u1)" "2 2 0 2" "unkeyed requests execute each time"
is "$(send /read/x -H 'X-Operation: r1')" "0 200" "a read is answered"
is "$(events r1)" "1 0 0 1" "and executes nothing"
send '/keyed/a?key_header=X-Pay-Id' -H 'X-Pay-Id: kh' >/dev/null
send '/keyed/a?key_query=q&q=kq%201' >/dev/null
send '/keyed/a/kp%2F1?key_path' >/dev/null
is "$(truth kh executed) $(truth 'kq 1' executed) $(truth kp/1 executed)" "1 1 1" "keys in header, query, path"
curl -s -o /dev/null -d '{"x":{"ref":"no"},"n":[1,"}"],"ref":"kf\u00e9\"","amount":5}' "http://127.0.0.1:$port/keyed/a?key_field=ref"
curl -s -o /dev/null -d 'a=1&ref=k%26f' "http://127.0.0.1:$port/keyed/a?key_field=ref"
is "$(truth $'kf\u00e9"' executed) $(truth 'k&f' executed)" "1 1" "keys in JSON and form bodies"
send '/keyed/t?key_ttl_ms=1' -H 'Idempotency-Key: ttl' >/dev/null
sleep 0.01
send '/keyed/t?key_ttl_ms=1' -H 'Idempotency-Key: ttl' >/dev/null
is "$(events ttl)" "2 2 0 2" "a key that is too old executes again"

# Behaviours: name, curl code and status, events; each one alone, in keyed mode
while read -r name result wanted; do
	op="b-${name%%[:;]*}"
	is "$(send "/keyed/refunds?do=$name" -H "Idempotency-Key: $op" | tr ' ' /)" "$result" "$name on the wire"
	is "$(events "$op" | tr ' ' /)" "$wanted" "$name in the truth log"
done <<-'TABLE'
	ok 0/200 1/1/0/1
	late:100 0/200 1/1/0/1
	held:1 28/000 1/1/0/0
	slowexec:100 0/200 1/1/0/1
	processing:100 0/200 1/1/0/1
	hang 28/000 1/1/0/0
	noexec_hang 28/000 1/0/0/0
	close 52/000 1/1/0/0
	close_before 52/000 1/0/0/0
	reset 56/000 1/1/0/0
	reset_before 56/000 1/0/0/0
	status:503 0/503 1/0/0/1
	execstatus:500 0/500 1/1/0/1
	loststatus:201 52/000 1/1/0/0
	cuthead 0/200 1/1/0/1
	statusline:HTTP/1.1%25202000%2520OK 1/000 1/1/0/1
	truncated 18/200 1/1/0/1
	noframing 0/200 1/1/0/1
	interim:103 28/103 1/1/0/0
	interim_ok:103 0/200 1/1/0/1
	nul 0/200 1/1/0/1
	gzip 0/200 1/1/0/1
	endless 28/200 1/1/0/1
	deep 0/200 1/1/0/1
	badutf8 0/200 1/1/0/1
	hugenum 0/200 1/1/0/1
	big:300000 0/200 1/1/0/1
	redirect:http://127.0.0.1:1/x 0/302 1/0/0/1
	accepted 0/202 1/1/0/1
	okfalse 0/200 1/0/0/1
	readclose2 0/200 1/1/0/1
	slowbody:100 0/200 1/1/0/1
	p:100:close/ok 52/000 1/1/0/0
	nonsense 0/501 1/0/0/1
TABLE
touch "$dir/main.truth.released.1"
is "$(send '/unkeyed/x?do=held:1')" "0 200" "held answers when it is released"
is "$(send '/unkeyed/x?do=big:300000'; stat -c %s "$dir/body")" $'0 200\n300000' "big has that size"
send '/unkeyed/x?do=status:429;Retry-After:2;X-Reason:a%252Cb%253Bc;body:%257B%2522no%2522:1%257D' >/dev/null
is "$(grep -c -e '^Retry-After: 2' -e '^X-Reason: a,b;c' "$dir/head") $(cat "$dir/body")" '2 {"no":1}' "status takes headers and a body"
send '/unkeyed/x?do=accepted' -H 'X-Operation: a b' >/dev/null
is "$(grep -c '^Location: /refunds?op=a%20b' "$dir/head")" 1 "accepted tells where to look"
send '/unkeyed/x?do=redirect:http%3A%2F%2F127.0.0.1:1/y' >/dev/null
is "$(grep -c '^Location: http://127.0.0.1:1/y' "$dir/head")" 1 "redirect tells where to go"

# Plans
plan='/keyed/p?do=close,status:500,ok'
is "$(for _ in 1 2 3 4; do send "$plan" -H 'Idempotency-Key: plan'; done | tr '\n' ' ')" \
	"52 000 0 500 0 200 0 200 " "a plan goes on with every request"
is "$(events plan)" "4 1 2 3" "and executes once under a key"
send '/keyed/p?do=execstatus:500,ok' -H 'Idempotency-Key: stored' >/dev/null
is "$(send '/keyed/p?do=execstatus:500,ok' -H 'Idempotency-Key: stored')" "0 500" "a stored error is replayed"
is "$(for i in $(seq 40); do send "/keyed/p?do=p:50:status:500/ok" -H "Idempotency-Key: p$i"; done | sort -u | tr '\n' ' ')" \
	"0 200 0 500 " "p: chooses both"
is "$(curl -s -m 3 -o "$dir/body" -o "$dir/body" -w '%{http_code} ' -H 'X-Operation: rc' -d '{}' \
	"http://127.0.0.1:$port/unkeyed/x?do=readclose2" "http://127.0.0.1:$port/unkeyed/x?do=readclose2" | cut -c1-3)" \
	200 "readclose2 answers the first request of a connection"
is "$(truth rc executed)" 3 "and executes the second without a byte, which curl sends again"

# Late execution and the key in use
curl -s -m 0.1 -d '{}' -H 'X-Operation: gone' "http://127.0.0.1:$port/unkeyed/x?do=slowexec:1500"
is "$(events gone)" "1 0 0 0" "not executed while the client waits"
for _ in $(seq 60); do [ "$(truth gone executed)" = 1 ] && break; sleep 0.05; done
is "$(events gone)" "1 1 0 0" "executed after the client has gone"
curl -s -m 2 -o /dev/null -d '{"amount":700}' -H 'Idempotency-Key: busy' "http://127.0.0.1:$port/keyed/x?do=processing:500,ok" &
busy=$!
for _ in $(seq 50); do [ "$(truth busy received)" = 1 ] && break; sleep 0.02; done
is "$(send '/keyed/x?do=processing:500,ok' -H 'Idempotency-Key: busy')" "0 409" "a key in use is told so"
wait $busy
is "$(send '/keyed/x?do=processing:500,ok' -H 'Idempotency-Key: busy')" "0 200" "and replayed later"
is "$(events busy)" "3 1 1 3" "one effect"

# Lookups
is "$(send '/refunds?key=k1' -G)" "0 200" "a lookup is answered"
is "$(sed 's/"created":[0-9]*/T/' "$dir/body")" \
	'{"object":"list","data":[{"id":"re_1","object":"refund","status":"succeeded","amount":700,"key":"k1","op":"k1",T}],"has_more":false}' \
	"with the effect"
send '/refunds?op=none' -X GET >/dev/null
is "$(cat "$dir/body")" '{"object":"list","data":[],"has_more":false}' "an unknown one is not found"
send '/refunds?key=' -X GET >/dev/null
is "$(cat "$dir/body")" '{"object":"list","data":[],"has_more":false}' "nor is an empty one"
send '/refunds?op=u1&hide_ms=60000' -X GET >/dev/null
is "$(cat "$dir/body")" '{"object":"list","data":[],"has_more":false}' "a young one is hidden"
is "$(send /refunds/u1 -X GET) $(send /refunds/none -X GET)" "0 200 0 404" "lookup by path"
is "$(send '/refunds?key=zz&do=status:500,ok' -X GET) $(send '/refunds?key=zz&do=status:500,ok' -X GET)" \
	"0 500 0 200" "lookups have plans too"

# Garbage and framing
is "$(raw 'hello\r\n\r\n' | cut -c1-24)" "HTTP/1.1 400 Bad Request" "garbage is refused"
is "$(raw '\x16\x03\x01\r\n\r\n\x00' | cut -c1-24)" "HTTP/1.1 400 Bad Request" "TLS on a plain port is refused"
is "$(raw 'POST /unkeyed/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx' | cut -c1-12)" "HTTP/1.1 400" "two lengths are refused"
is "$(raw 'POST /unkeyed/x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx' | cut -c1-12)" "HTTP/1.1 413" "too long is refused"
is "$(raw 'POST /unkeyed/x HTTP/1.1\r\nX-Operation: ch\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"amo\r\nb;x=y\r\nunt":12345}\r\n0\r\nT: x\r\n\r\n' | grep -o '"amount":[0-9]*')" \
	'"amount":12345' "a chunked request body is decoded"
is "$(raw 'GET /read/a HTTP/1.1\r\n\r\nGET /read/b HTTP/1.0\r\n\r\n' | grep -o 'HTTP/1.1 200' | wc -l)" 2 "pipelined requests are answered in turn"
is "$(raw 'POST /unkeyed/x?do=reset HTTP/1.1\r\nContent-Length: 0\r\n\r\n')" "<reset>" "reset is a reset"
is "$(raw 'POST /unkeyed/x?do=close HTTP/1.1\r\nContent-Length: 0\r\n\r\n')" "" "close is an end without a byte"
is "$(raw 'POST /unkeyed/x?do=cuthead HTTP/1.1\r\nContent-Length: 0\r\n\r\n')" "HTTP/1.1 200 OK|Server: provider|Content-Ty" "cuthead cuts the head"
is "$(raw 'POST /unkeyed/x?do=interim:102 HTTP/1.1\r\nContent-Length: 0\r\n\r\n')" "HTTP/1.1 102 Processing||<timeout>" "interim says nothing more"
is "$(raw 'POST /unkeyed/x?do=statusline:HTTP/1.1%252020000%2520X HTTP/1.0\r\nContent-Length: 0\r\n\r\n' | cut -d'|' -f1)" "HTTP/1.1 20000 X" "statusline is raw"
raw 'POST /unkeyed/x HTTP/1.0\r\nX-Operation: q\x22\xff\x01\xc3\xa9\r\nContent-Length: 0\r\n\r\n' >/dev/null
is "$(truth $'q"\u00ff\u0001\u00e9' executed)" 1 "any bytes are legible in the truth log"
head -c 8000000 /dev/zero >"$dir/zeros"
is "$(send /unkeyed/x -d '' --data-binary "@$dir/zeros" -H 'X-Operation: large')" "0 200" "a large body is taken"

# Many that hang, and the summary
python3 - "$port" <<-'PY'
	import socket, sys, time
	all = []
	for i in range(900):
	    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
	    s.sendall(b"POST /unkeyed/x?do=hang HTTP/1.1\r\nX-Operation: m%d\r\nContent-Length: 0\r\n\r\n" % i)
	    all.append(s)
	time.sleep(0.2)
	s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
	s.sendall(b"GET /truth HTTP/1.0\r\n\r\n")
	print("#", s.recv(4096).split(b"\r\n")[-1].decode())
PY
is "$(truth m899 executed)" 1 "hundreds of hanging connections do not hinder"
for _ in $(seq 50); do
	open=$(curl -s "http://127.0.0.1:$port/truth" | grep -o '"open_connections":[0-9]*')
	[ "$open" = '"open_connections":0' ] && break
	sleep 0.05
done
is "$open" '"open_connections":0' "closed connections are noticed"
is "$("$provider" --truth "$dir/main.truth" --port-file "$dir/again.port" 2>&1; echo $?)" \
	"provider: truth log \"$dir/main.truth\" is not empty"$'\n1' "a used truth log is refused"

# TLS
for name in ca other server; do
	openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj "/CN=localhost" \
		-addext "subjectAltName=IP:127.0.0.1,DNS:localhost" \
		-keyout "$dir/$name.key" -out "$dir/$name.crt" 2>/dev/null
done
launch tls --no-fsync --tls "$dir/server.crt" "$dir/server.key"
tls="https://127.0.0.1:$port"
is "$(curl -s --cacert "$dir/server.crt" -d '{}' -w ' %{http_version}' "$tls/unkeyed/x" | tail -c 6)" "l} 1.1" "TLS is spoken, HTTP/1.1 chosen"
is "$(curl -s -d '{}' "$tls/unkeyed/x"; echo $?)" 60 "an unknown certificate is refused by the client"
curl -s --cacert "$dir/server.crt" -d '{}' "$tls/unkeyed/x?do=close"
is "$?" 52 "close over TLS"
curl -s --cacert "$dir/server.crt" -d '{}' "$tls/unkeyed/x?do=reset"
is "$?" 56 "reset over TLS"
is "$(curl -s --cacert "$dir/server.crt" -d '{}' "$tls/unkeyed/x?do=big:3000000" | wc -c)" 3000000 "a big answer over TLS"
is "$(curl -s --cacert "$dir/server.crt" --data-binary "@$dir/zeros" "$tls/unkeyed/x" | tail -c 14)" '"amount":null}' "a large body over TLS"
launch mtls --no-fsync --tls "$dir/server.crt" "$dir/server.key" --client-ca "$dir/ca.crt"
tls="https://127.0.0.1:$port"
is "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$dir/server.crt" --cert "$dir/ca.crt" --key "$dir/ca.key" -d '{}' "$tls/unkeyed/x")" 200 "a client certificate is taken"
is "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$dir/server.crt" --cert "$dir/other.crt" --key "$dir/other.key" -d '{}' "$tls/unkeyed/x")" 000 "another one is not"
is "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$dir/server.crt" -d '{}' "$tls/unkeyed/x")" 000 "none is not either"
is "$(curl -s --cacert "$dir/server.crt" --cert "$dir/ca.crt" --key "$dir/ca.key" "$tls/truth" | grep -o '"executed":[0-9]*')" '"executed":1' "and nothing was executed for them"

# Its end
(
	"$provider" --quiet --truth "$dir/orphan.truth" --port-file "$dir/orphan.port" &
	echo $! >"$dir/orphan.pid"
	for _ in $(seq 100); do [ -f "$dir/orphan.port" ] && break; sleep 0.05; done
	exit 0
)
for _ in $(seq 100); do kill -0 "$(cat "$dir/orphan.pid")" 2>/dev/null || break; sleep 0.05; done
is "$(kill -0 "$(cat "$dir/orphan.pid")" 2>&1 | grep -c 'No such process')" 1 "it ends with its parent"
kill "${pids[0]}"
wait "${pids[0]}"
is "$?" 0 "it ends when told to"
pids=("${pids[@]:1}")

echo "1..$count"
[ "$failed" = 0 ]
