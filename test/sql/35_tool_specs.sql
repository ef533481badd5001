-- Tools as function specifications, and tools of a Model Context Protocol server.
\a
\t
SET client_min_messages = error;
CREATE ROLE regress_al_model;
SELECT actionledger.create_service('sp', 'https://api.example.invalid', '{"idempotency": {"window": "24h"}}');
SELECT count(actionledger.create_tool('sp_refund', 'sp', 'POST /refunds', identity => 'refund:{refund_id}', input => '{"description": "Refund a payment.", "required": ["refund_id"],
    "properties": {"refund_id": {"type": "string", "description": "your request id"}, "amount": {"type": "integer", "minimum": 1}}}'));
SELECT count(actionledger.create_tool('sp_get', 'sp', 'GET /refunds/{id}', 'read_only', input => '{"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": false}', options => '{"summary": "read {id}"}'));
SELECT count(actionledger.create_tool('sp_set', 'sp', 'PUT /limits', 'idempotent', input => '{"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": {}}}'));
SELECT count(actionledger.create_tool('sp_any', 'sp', 'POST /any', 'irreversible', input => '{"additionalProperties": {"type": "string"}}'));
SELECT count(actionledger.create_tool('sp_hidden', 'sp', 'POST /hidden'));
SELECT actionledger.grant_tool(t, 'regress_al_model') FROM unnest('{sp_refund,sp_get,sp_set,sp_any}'::text[]) t;
SET ROLE regress_al_model;
SELECT jsonb_pretty(actionledger.tool_specs('openai'));
SELECT jsonb_pretty(actionledger.tool_specs('anthropic') -> 1);
SELECT jsonb_pretty(jsonb_path_query(actionledger.tool_specs('mcp'), '$.tools[*] ? (@.name == "sp_refund" || @.name == "sp_get")'));
SELECT t ->> 'name', t -> 'annotations' FROM jsonb_array_elements(actionledger.tool_specs('mcp') -> 'tools') t;
-- What a specification allows the ledger takes, and nothing else.
SELECT s -> 'input_schema' -> 'additionalProperties' AS extra, jsonb_path_query_array(s, '$.input_schema.properties.keyvalue().key') AS properties, count(f) AS findings
FROM jsonb_array_elements(actionledger.tool_specs('anthropic')) s LEFT JOIN LATERAL jsonb_array_elements(
    CASE s ->> 'name' WHEN 'sp_set' THEN actionledger.try_perform('sp_set', '{"a": 1, "b": 2, "c": 3}') #> '{meta,findings}' ELSE '[]' END) f ON true
GROUP BY s ORDER BY s ->> 'name';
SELECT test.fails($$SELECT actionledger.tool_specs('gemini')$$);
RESET ROLE;
-- A role without tools gets an empty list; a name that a format cannot have is told.
CREATE ROLE regress_al_bare;
SET ROLE regress_al_bare;
SELECT actionledger.tool_specs('openai'), actionledger.tool_specs('anthropic'), actionledger.tool_specs('mcp');
RESET ROLE;
SELECT count(actionledger.create_tool('sp.v2/pay out', 'sp', 'POST /x'));
SELECT actionledger.grant_tool('sp.v2/pay out', 'regress_al_bare');
SET ROLE regress_al_bare;
SELECT test.fails($$SELECT actionledger.tool_specs('openai')$$);
SELECT test.fails($$SELECT actionledger.tool_specs('mcp')$$);
RESET ROLE;

-- Import.  What the server says of its tools changes nothing about the care that is taken.
SELECT actionledger.create_service('mcp', 'https://mcp.example.invalid', '{"idempotency": "none"}');
CREATE TEMP TABLE list (answer jsonb);
INSERT INTO list VALUES ('{"jsonrpc": "2.0", "id": 1, "result": {"tools": [
    {"name": "mcp_book", "title": "Book", "description": "Book a table.", "annotations": {"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false},
     "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"at": {"type": "string", "format": "date-time"}, "guests": {"type": "integer"}, "note": {}}, "required": ["at", "guests"]}},
    {"name": "mcp_none", "inputSchema": {"type": "object"}},
    {"name": "mcp_pattern", "inputSchema": {"type": "object", "properties": {"x": {"type": "object", "patternProperties": {"^a": {}}}}}},
    {"name": "mcp_format", "inputSchema": {"type": "object", "properties": {"x": {"type": "string", "format": "hostname"}}}},
    {"name": "mcp_dashes", "inputSchema": {"type": "object", "properties": {"a-b": {"type": "string"}}}},
    {"name": "mcp_inner", "inputSchema": {"type": "object", "properties": {"_key": {"type": "string"}}}},
    {"name": "mcp_open", "inputSchema": {"type": "object", "properties": {"a": {}}, "additionalProperties": true}},
    {"name": "mcp {_key}", "inputSchema": {"type": "object"}},
    {"name": "mcp_without"},
    {"inputSchema": {}},
    7,
    {"name": "mcp_book", "inputSchema": {"type": "object"}}]}}');
SELECT i.tool, i.imported, CASE WHEN NOT i.imported THEN i.message END FROM list, actionledger.import_mcp_tools(answer, 'mcp', '{"request": "POST /rpc", "options": {"timeout": "20s", "approval": "never"}}') i;
SELECT tool, action_type, request, options ->> 'approval' AS approval, options ->> 'timeout' AS timeout, input -> 'additionalProperties' AS extra, input ->> 'description' AS description
FROM actionledger.tools WHERE service = 'mcp' ORDER BY 1;
-- What is sent, and that nothing is before somebody has approved it.
SELECT status, next_step FROM actionledger.perform('mcp_book', '{"at": "2026-12-01T20:00:00Z", "guests": 2}');
SELECT convert_from(a.body, 'UTF8')::jsonb - 'id' AS body, a.headers ~ 'Accept: application/json, text/event-stream' AS accepts, right(a.url, 4) AS path
FROM actionledger.action a JOIN actionledger.tool t USING (tool_id) WHERE t.name = 'mcp_book';
SELECT c.status FROM actionledger.actions a, actionledger.cancel(a.action_id) c WHERE a.tool = 'mcp_book';
-- All or nothing; again; nothing at all.
SELECT test.fails($$SELECT i.* FROM list, actionledger.import_mcp_tools(answer, 'mcp', '{"all_or_nothing": true, "replace": true}') i$$);
SELECT i.tool, i.imported FROM list, actionledger.import_mcp_tools(jsonb_path_query_first(answer, '$.result') #- '{tools,11}', 'mcp', '{"replace": true}') i WHERE imported;
SET client_min_messages = notice;
SELECT * FROM actionledger.import_mcp_tools('{"tools": [], "nextCursor": "abc"}', 'mcp');
SET client_min_messages = error;
SELECT test.fails($$SELECT * FROM actionledger.import_mcp_tools('[]', 'mcp')$$);
SELECT test.fails($$SELECT * FROM actionledger.import_mcp_tools('{"tools": []}', 'mcp', '{"approval": "never"}')$$);
SELECT i.* FROM actionledger.import_mcp_tools('{"tools": [{"name": "mcp_lost", "inputSchema": {}}]}', 'nowhere') i;
SET ROLE regress_al_model;
SELECT actionledger.import_mcp_tools('{"tools": []}', 'mcp');
RESET ROLE;
DROP OWNED BY regress_al_model, regress_al_bare;
DELETE FROM actionledger.tool_grant WHERE role IN ('regress_al_model', 'regress_al_bare');
DROP ROLE regress_al_model, regress_al_bare;
