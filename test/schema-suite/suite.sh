#!/usr/bin/env bash
# Run the JSON Schema suite in the folder SUITE on a private server.
set -euo pipefail
# shellcheck source=test/lib/server.sh
. test/lib/server.sh

start_server </dev/null
trap stop_server EXIT
psql -qX -v ON_ERROR_STOP=1 -c "CREATE EXTENSION actionledger"
perl test/schema_suite.pl "$SUITE"
