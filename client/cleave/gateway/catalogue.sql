-- PostgreSQL's catalogue over the tables that a user may query. cleave.gateway.catalogue fills the first four
-- tables. Statements of clients read the views and call the macros. Of all this, what a statement needs is made.

CREATE TABLE "base.tables" (oid UINTEGER, name VARCHAR);
CREATE TABLE "base.columns" (relid UINTEGER, num SMALLINT, name VARCHAR, type UINTEGER, size SMALLINT, modifier INTEGER, required BOOLEAN, key SMALLINT, kind VARCHAR);
CREATE TABLE "base.settings" (name VARCHAR, setting VARCHAR);
CREATE TABLE "base.types" (oid UINTEGER, name VARCHAR, shown VARCHAR, size SMALLINT, category VARCHAR, array_oid UINTEGER);
CREATE TABLE "base.namespaces" AS SELECT oid::UINTEGER AS oid, name FROM (VALUES (11, 'pg_catalog'), (2200, 'public'), (13000, 'information_schema')) AS t (oid, name);
CREATE TABLE "base.system" AS SELECT oid::UINTEGER AS oid, name FROM (VALUES (1259, 'pg_class'), (1247, 'pg_type'), (1249, 'pg_attribute'), (1255, 'pg_proc'), (2615, 'pg_namespace'),
    (2606, 'pg_constraint'), (2610, 'pg_index'), (1262, 'pg_database'), (2604, 'pg_attrdef'), (1260, 'pg_authid'), (1213, 'pg_tablespace'), (2620, 'pg_trigger'), (2618, 'pg_rewrite'), (3256, 'pg_policy')) AS t (oid, name);

CREATE MACRO relation_name(x) AS replace(regexp_replace(regexp_replace(x, '^"?(public|pg_catalog)"?\.', ''), '^"(.*)"$', '\1'), '""', '"');
CREATE MACRO quote_ident(n) AS if(regexp_full_match(n, '[a-z_][a-z0-9_$]*'), n, '"' || replace(n, '"', '""') || '"');
CREATE MACRO key_names(o) AS (SELECT string_agg(quote_ident(name), ', ' ORDER BY key) FROM "base.columns" WHERE relid = o AND key IS NOT NULL);
CREATE MACRO function_of(n, what) AS n || if(n IN ('date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval', 'numeric', 'uuid', 'json', 'jsonb', 'record', 'void'), '_', '') || what;
CREATE MACRO parse_ident(n) AS string_split(replace(n, '"', ''), '.');
CREATE MACRO format(f, a) AS if(regexp_matches(f, '%[sIL]'), regexp_replace(f, '%[sIL]', a::VARCHAR), system.main.format(f, a)),
    (f, a, b) AS if(regexp_matches(f, '%[sIL]'), regexp_replace(regexp_replace(f, '%[sIL]', a::VARCHAR), '%[sIL]', b::VARCHAR), system.main.format(f, a, b));
CREATE MACRO session(n) AS (SELECT setting FROM "base.settings" WHERE name = n);
CREATE MACRO key_of(o) AS (SELECT list(num ORDER BY key) FROM "base.columns" WHERE relid = o AND key IS NOT NULL);
CREATE MACRO has_key(o) AS EXISTS (SELECT 1 FROM "base.columns" WHERE relid = o AND key IS NOT NULL);
CREATE MACRO current_setting(n) AS coalesce((SELECT setting FROM "base.settings" WHERE name = lower(n)), error('this setting is not known')), (n, missing) AS (SELECT setting FROM "base.settings" WHERE name = lower(n));
CREATE MACRO set_config(n, v, l) AS CASE WHEN lower(n) IN ('search_path', 'bytea_output', 'jit', 'statement_timeout') THEN v ELSE error('settings are set with SET here') END;
CREATE MACRO version() AS 'PostgreSQL ' || session('server_version') || ' (Cleave)';
CREATE MACRO current_schema() AS 'public';
CREATE MACRO current_schemas(implicit) AS if(implicit, ['pg_catalog', 'public'], ['public']);
CREATE MACRO current_database() AS 'cleave';
CREATE MACRO current_catalog() AS 'cleave';
CREATE MACRO current_user() AS session('user');
CREATE MACRO session_user() AS session('user');
CREATE MACRO current_role() AS session('user');
CREATE MACRO user() AS session('user');
CREATE MACRO pg_backend_pid() AS session('pid')::INTEGER;
CREATE MACRO pg_is_in_recovery() AS FALSE;
CREATE MACRO pg_my_temp_schema() AS 0::UINTEGER;
CREATE MACRO pg_is_other_temp_schema(x) AS FALSE;
CREATE MACRO pg_postmaster_start_time() AS now();
CREATE MACRO pg_conf_load_time() AS now();
CREATE MACRO pg_client_encoding() AS 'UTF8';
CREATE MACRO pg_encoding_to_char(x) AS 'UTF8';
CREATE MACRO pg_char_to_encoding(x) AS 6;
CREATE MACRO getdatabaseencoding() AS 'UTF8';
CREATE MACRO inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO inet_server_port() AS NULL::INTEGER;
CREATE MACRO inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO inet_client_port() AS NULL::INTEGER;
CREATE MACRO pg_advisory_unlock_all() AS '';
CREATE MACRO txid_current() AS 1::BIGINT;
CREATE MACRO pg_table_is_visible(x) AS TRUE;
CREATE MACRO pg_type_is_visible(x) AS TRUE;
CREATE MACRO pg_function_is_visible(x) AS TRUE;
CREATE MACRO pg_operator_is_visible(x) AS TRUE;
CREATE MACRO pg_opclass_is_visible(x) AS TRUE;
CREATE MACRO pg_collation_is_visible(x) AS TRUE;
CREATE MACRO pg_conversion_is_visible(x) AS TRUE;
CREATE MACRO pg_statistics_obj_is_visible(x) AS TRUE;
CREATE MACRO pg_ts_config_is_visible(x) AS TRUE;
CREATE MACRO has_schema_privilege(s, p) AS lower(p) LIKE '%usage%', (u, s, p) AS lower(p) LIKE '%usage%';
CREATE MACRO has_table_privilege(t, p) AS lower(p) LIKE '%select%', (u, t, p) AS lower(p) LIKE '%select%';
CREATE MACRO has_any_column_privilege(t, p) AS lower(p) LIKE '%select%', (u, t, p) AS lower(p) LIKE '%select%';
CREATE MACRO has_column_privilege(t, c, p) AS lower(p) LIKE '%select%', (u, t, c, p) AS lower(p) LIKE '%select%';
CREATE MACRO has_database_privilege(d, p) AS lower(p) LIKE '%connect%', (u, d, p) AS lower(p) LIKE '%connect%';
CREATE MACRO has_function_privilege(f, p) AS FALSE, (u, f, p) AS FALSE;
CREATE MACRO pg_has_role(r, p) AS TRUE, (u, r, p) AS TRUE;
CREATE MACRO pg_get_userbyid(x) AS session('user');
CREATE MACRO format_type(o, m) AS coalesce((SELECT shown || if(oid = 1700 AND coalesce(m, -1) > 0, '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')', '') FROM "base.types" WHERE oid = o), (SELECT shown || '[]' FROM "base.types" WHERE array_oid = o AND o > 0), '???');
CREATE MACRO regclass_oid(x) AS coalesce(TRY_CAST(x AS UINTEGER), (SELECT oid FROM "base.tables" WHERE name = relation_name(x) UNION ALL SELECT oid FROM "base.system" WHERE name = relation_name(x)));
CREATE MACRO regclass_name(x) AS CASE WHEN TRY_CAST(x AS UINTEGER) IS NULL THEN regclass_oid(x::VARCHAR)::VARCHAR ELSE (SELECT name FROM "base.tables" WHERE oid = TRY_CAST(x AS UINTEGER) UNION ALL SELECT name FROM "base.system" WHERE oid = TRY_CAST(x AS UINTEGER)) END;
CREATE MACRO to_regclass(x) AS regclass_oid(x);
CREATE MACRO regtype_oid(x) AS (SELECT min(oid) FROM "base.types" WHERE lower(regexp_replace(x, '^pg_catalog\.', '')) IN (name, shown));
CREATE MACRO to_regtype(x) AS regtype_oid(x);
CREATE MACRO regtype_name(x) AS format_type(x, NULL);
CREATE MACRO regproc_oid(x) AS regexp_replace(x, '^pg_catalog\.', '');
CREATE MACRO regprocedure_oid(x) AS regproc_oid(x);
CREATE MACRO regproc_name(x) AS x::VARCHAR;
CREATE MACRO regprocedure_name(x) AS x::VARCHAR;
CREATE MACRO regrole_oid(x) AS 10::UINTEGER;
CREATE MACRO regrole_name(x) AS session('user');
CREATE MACRO regnamespace_oid(x) AS (SELECT oid FROM "base.namespaces" WHERE name = x);
CREATE MACRO to_regnamespace(x) AS regnamespace_oid(x);
CREATE MACRO regnamespace_name(x) AS (SELECT name FROM "base.namespaces" WHERE oid = x);
CREATE MACRO obj_description(o) AS NULL::VARCHAR, (o, c) AS NULL::VARCHAR;
CREATE MACRO shobj_description(o, c) AS NULL::VARCHAR;
CREATE MACRO col_description(o, n) AS (SELECT kind FROM "base.columns" WHERE relid = o AND num = n);
CREATE MACRO pg_get_expr(e, o) AS NULL::VARCHAR, (e, o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_constraintdef(o) AS 'PRIMARY KEY (' || key_names(o - 200000000) || ')', (o, p) AS 'PRIMARY KEY (' || key_names(o - 200000000) || ')';
CREATE MACRO index_of(o, s) AS (SELECT 'CREATE UNIQUE INDEX ' || quote_ident(name || '_pkey') || ' ON ' || s || quote_ident(name) || ' USING btree (' || key_names(oid) || ')' FROM "base.tables" WHERE oid = o - 100000000);
CREATE MACRO pg_get_indexdef(o) AS index_of(o, 'public.'), (o, n, p) AS if(n = 0, index_of(o, if(p, '', 'public.')), (SELECT name FROM "base.columns" WHERE relid = o - 100000000 AND key = n));
CREATE MACRO pg_get_viewdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_partkeydef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_ruledef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_triggerdef(o) AS NULL::VARCHAR, (o, p) AS NULL::VARCHAR;
CREATE MACRO pg_get_functiondef(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_sqlbody(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_result(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_identity_arguments(o) AS NULL::VARCHAR;
CREATE MACRO pg_get_serial_sequence(t, c) AS NULL::VARCHAR;
CREATE MACRO pg_get_statisticsobjdef_columns(o) AS NULL::VARCHAR;
CREATE MACRO pg_partition_ancestors(o) AS o::UINTEGER;
CREATE MACRO pg_relation_is_publishable(o) AS FALSE;
CREATE MACRO pg_relation_size(o) AS NULL::BIGINT, (o, f) AS NULL::BIGINT;
CREATE MACRO pg_total_relation_size(o) AS NULL::BIGINT;
CREATE MACRO pg_table_size(o) AS NULL::BIGINT;
CREATE MACRO pg_indexes_size(o) AS NULL::BIGINT;
CREATE MACRO pg_database_size(o) AS NULL::BIGINT;
CREATE MACRO pg_size_pretty(n) AS format_bytes(n);
CREATE MACRO pg_tablespace_location(o) AS '';
CREATE MACRO pg_index_column_has_property(i, n, p) AS p IN ('asc', 'nulls_last', 'orderable');
CREATE MACRO array_lower(a, n) AS if(n = 1 AND len(a) > 0, 1, NULL)::INTEGER;
CREATE MACRO array_upper(a, n) AS if(n = 1 AND len(a) > 0, len(a), NULL)::INTEGER;
CREATE MACRO quote_literal(n) AS '''' || replace(n, '''', '''''') || '''';
CREATE MACRO not_regexp(a, b) AS NOT regexp_matches(a, b);
CREATE MACRO _pg_expandarray(a) AS unnest(list_transform(a, lambda x, i: {'x': x, 'n': i::INTEGER}));
CREATE MACRO _pg_truetypid(a, t) AS 0;
CREATE MACRO pg_get_keywords() AS TABLE SELECT '' AS word, 'U' AS catcode, '' AS catdesc WHERE FALSE;
CREATE MACRO pg_show_all_settings() AS TABLE SELECT name, setting FROM "base.settings";
CREATE MACRO pg_options_to_table(o) AS TABLE SELECT '' AS option_name, '' AS option_value WHERE FALSE;
CREATE MACRO pg_timezone_names() AS TABLE SELECT 'UTC' AS name, 'UTC' AS abbrev, INTERVAL '0' SECOND AS utc_offset, FALSE AS is_dst;

CREATE VIEW "pg_catalog.pg_namespace" AS SELECT oid, name AS nspname, 10::UINTEGER AS nspowner, NULL::VARCHAR AS nspacl FROM "base.namespaces";
CREATE VIEW "pg_catalog.pg_class" AS
SELECT oid, name AS relname, 2200::UINTEGER AS relnamespace, 0::UINTEGER AS reltype, 0::UINTEGER AS reloftype, 10::UINTEGER AS relowner, 2::UINTEGER AS relam,
    oid AS relfilenode, 0::UINTEGER AS reltablespace, 0::INTEGER AS relpages, -1::FLOAT AS reltuples, 0::INTEGER AS relallvisible, 0::UINTEGER AS reltoastrelid,
    has_key(oid) AS relhasindex, FALSE AS relisshared, 'p' AS relpersistence, 'r' AS relkind,
    (SELECT count(*) FROM "base.columns" WHERE relid = t.oid)::SMALLINT AS relnatts, 0::SMALLINT AS relchecks, FALSE AS relhasrules, FALSE AS relhastriggers,
    FALSE AS relhassubclass, FALSE AS relrowsecurity, FALSE AS relforcerowsecurity, TRUE AS relispopulated, 'd' AS relreplident, FALSE AS relispartition,
    0::UINTEGER AS relrewrite, NULL::VARCHAR AS relacl, NULL::VARCHAR[] AS reloptions, NULL::VARCHAR AS relpartbound
FROM "base.tables" t
UNION ALL BY NAME
SELECT (oid + 100000000)::UINTEGER AS oid, name || '_pkey' AS relname, 2200::UINTEGER AS relnamespace, 0::UINTEGER AS reltype, 0::UINTEGER AS reloftype, 10::UINTEGER AS relowner, 403::UINTEGER AS relam,
    'p' AS relpersistence, 'i' AS relkind, FALSE AS relispartition, NULL::VARCHAR[] AS reloptions, 0::UINTEGER AS reltablespace,
    (SELECT count(*) FROM "base.columns" WHERE relid = t.oid AND key IS NOT NULL)::SMALLINT AS relnatts, FALSE AS relhasrules, FALSE AS relhastriggers, FALSE AS relrowsecurity, FALSE AS relforcerowsecurity, FALSE AS relhasindex, 0::INTEGER AS relpages, 0::FLOAT AS reltuples, (oid + 100000000)::UINTEGER AS relfilenode
FROM "base.tables" t WHERE has_key(oid);
CREATE VIEW "pg_catalog.pg_attribute" AS
SELECT relid AS attrelid, name AS attname, type AS atttypid, -1::INTEGER AS attstattarget, size AS attlen, num AS attnum, 0::INTEGER AS attndims, -1::INTEGER AS attcacheoff,
    modifier AS atttypmod, FALSE AS attbyval, 'i' AS attalign, 'x' AS attstorage, '' AS attcompression, required AS attnotnull, FALSE AS atthasdef, FALSE AS atthasmissing,
    '' AS attidentity, '' AS attgenerated, FALSE AS attisdropped, TRUE AS attislocal, 0::INTEGER AS attinhcount, 0::UINTEGER AS attcollation,
    NULL::VARCHAR AS attacl, NULL::VARCHAR[] AS attoptions, NULL::VARCHAR[] AS attfdwoptions, NULL::VARCHAR AS attmissingval
FROM (SELECT * FROM "base.columns" UNION ALL SELECT (relid + 100000000)::UINTEGER, key, name, type, size, modifier, required, key, kind FROM "base.columns" WHERE key IS NOT NULL);
CREATE VIEW "pg_catalog.pg_type" AS
SELECT oid, name AS typname, 11::UINTEGER AS typnamespace, 10::UINTEGER AS typowner, size AS typlen, size BETWEEN 1 AND 8 AS typbyval,
    if(category = 'P', 'p', 'b') AS typtype, category AS typcategory, FALSE AS typispreferred, TRUE AS typisdefined, ',' AS typdelim, 0::UINTEGER AS typrelid,
    0::UINTEGER AS typelem, array_oid AS typarray, function_of(name, 'in') AS typinput, function_of(name, 'out') AS typoutput, function_of(name, 'recv') AS typreceive, function_of(name, 'send') AS typsend,
    '-' AS typmodin, '-' AS typmodout, '-' AS typanalyze, 'i' AS typalign, 'p' AS typstorage, FALSE AS typnotnull, 0::UINTEGER AS typbasetype,
    -1::INTEGER AS typtypmod, 0::INTEGER AS typndims, 0::UINTEGER AS typcollation, NULL::VARCHAR AS typdefault, NULL::VARCHAR AS typdefaultbin, NULL::VARCHAR AS typacl, '-' AS typsubscript
FROM "base.types"
UNION ALL
SELECT array_oid, '_' || name, 11, 10, -1, FALSE, 'b', 'A', FALSE, TRUE, ',', 0, oid, 0, 'array_in', 'array_out', 'array_recv', 'array_send', '-', '-', '-', 'i', 'x', FALSE, 0, -1, 0, 0,
    NULL, NULL, NULL, '-' FROM "base.types" WHERE array_oid > 0;
CREATE VIEW "pg_catalog.pg_constraint" AS
SELECT (oid + 200000000)::UINTEGER AS oid, name || '_pkey' AS conname, 2200::UINTEGER AS connamespace, 'p' AS contype, FALSE AS condeferrable, FALSE AS condeferred, TRUE AS convalidated,
    oid AS conrelid, 0::UINTEGER AS contypid, (oid + 100000000)::UINTEGER AS conindid, 0::UINTEGER AS conparentid, 0::UINTEGER AS confrelid, ' ' AS confupdtype, ' ' AS confdeltype, ' ' AS confmatchtype,
    TRUE AS conislocal, 0::INTEGER AS coninhcount, TRUE AS connoinherit, key_of(oid) AS conkey, NULL::SMALLINT[] AS confkey, NULL::VARCHAR AS conbin
FROM "base.tables" WHERE has_key(oid);
CREATE VIEW "pg_catalog.pg_index" AS
SELECT (oid + 100000000)::UINTEGER AS indexrelid, oid AS indrelid, len(key_of(oid))::SMALLINT AS indnatts, len(key_of(oid))::SMALLINT AS indnkeyatts, TRUE AS indisunique, FALSE AS indnullsnotdistinct,
    TRUE AS indisprimary, FALSE AS indisexclusion, TRUE AS indimmediate, FALSE AS indisclustered, TRUE AS indisvalid, FALSE AS indcheckxmin, TRUE AS indisready, TRUE AS indislive, FALSE AS indisreplident,
    key_of(oid) AS indkey, list_transform(key_of(oid), lambda x: 0::UINTEGER) AS indcollation, list_transform(key_of(oid), lambda x: 0::UINTEGER) AS indclass,
    list_transform(key_of(oid), lambda x: 0::SMALLINT) AS indoption, NULL::VARCHAR AS indexprs, NULL::VARCHAR AS indpred
FROM "base.tables" WHERE has_key(oid);
CREATE VIEW "pg_catalog.pg_description" AS
SELECT relid AS objoid, 1259::UINTEGER AS classoid, num::INTEGER AS objsubid, kind AS description FROM "base.columns";
CREATE VIEW "pg_catalog.pg_tables" AS
SELECT 'public' AS schemaname, name AS tablename, 'cleave' AS tableowner, NULL::VARCHAR AS tablespace, has_key(oid) AS hasindexes, FALSE AS hasrules, FALSE AS hastriggers, FALSE AS rowsecurity FROM "base.tables";
CREATE VIEW "pg_catalog.pg_indexes" AS
SELECT 'public' AS schemaname, name AS tablename, name || '_pkey' AS indexname, NULL::VARCHAR AS tablespace, pg_get_indexdef(oid + 100000000) AS indexdef FROM "base.tables" WHERE has_key(oid);
CREATE VIEW "pg_catalog.pg_database" AS
SELECT 1::UINTEGER AS oid, 'cleave' AS datname, 10::UINTEGER AS datdba, 6::INTEGER AS encoding, 'c' AS datlocprovider, FALSE AS datistemplate, TRUE AS datallowconn, -1::INTEGER AS datconnlimit, 0::UINTEGER AS datlastsysoid,
    1663::UINTEGER AS dattablespace, 'C' AS datcollate, 'C' AS datctype, NULL::VARCHAR AS daticulocale, NULL::VARCHAR AS datlocale, NULL::VARCHAR AS daticurules, NULL::VARCHAR AS datcollversion, NULL::VARCHAR AS datacl;
CREATE VIEW "pg_catalog.pg_roles" AS
SELECT 10::UINTEGER AS oid, session('user') AS rolname, FALSE AS rolsuper, TRUE AS rolinherit, FALSE AS rolcreaterole, FALSE AS rolcreatedb, TRUE AS rolcanlogin, FALSE AS rolreplication, FALSE AS rolbypassrls,
    -1::INTEGER AS rolconnlimit, NULL::TIMESTAMPTZ AS rolvaliduntil, NULL::VARCHAR AS rolpassword, NULL::VARCHAR[] AS rolconfig;
CREATE VIEW "pg_catalog.pg_user" AS SELECT rolname AS usename, oid AS usesysid, rolsuper AS usesuper FROM "pg_catalog.pg_roles";
CREATE VIEW "pg_catalog.pg_authid" AS FROM "pg_catalog.pg_roles";
CREATE VIEW "pg_catalog.pg_am" AS SELECT 2::UINTEGER AS oid, 'heap' AS amname, 't' AS amtype UNION ALL SELECT 403, 'btree', 'i';
CREATE VIEW "pg_catalog.pg_settings" AS SELECT name, setting, NULL::VARCHAR AS unit, '' AS category, '' AS short_desc, 'user' AS context, 'string' AS vartype, 'default' AS source, setting AS boot_val, setting AS reset_val FROM "base.settings";
CREATE VIEW "pg_catalog.pg_stat_user_tables" AS SELECT oid AS relid, 'public' AS schemaname, name AS relname, NULL::BIGINT AS n_live_tup FROM "base.tables";
CREATE VIEW "pg_catalog.pg_language" AS SELECT 14::UINTEGER AS oid, 'sql' AS lanname;
CREATE VIEW "pg_catalog.pg_tablespace" AS SELECT 1663::UINTEGER AS oid, 'pg_default' AS spcname, 10::UINTEGER AS spcowner, NULL::VARCHAR AS spcacl, NULL::VARCHAR[] AS spcoptions;
CREATE VIEW "pg_catalog.pg_collation" AS SELECT 100::UINTEGER AS oid, 'default' AS collname, 11::UINTEGER AS collnamespace, TRUE AS collisdeterministic, 'd' AS collprovider, -1::INTEGER AS collencoding, NULL::VARCHAR AS collcollate, NULL::VARCHAR AS collctype WHERE FALSE;
CREATE VIEW "pg_catalog.pg_views" AS SELECT '' AS schemaname, '' AS viewname, '' AS viewowner, '' AS definition WHERE FALSE;
CREATE VIEW "pg_catalog.pg_matviews" AS SELECT '' AS schemaname, '' AS matviewname, '' AS matviewowner, '' AS definition WHERE FALSE;
CREATE VIEW "pg_catalog.pg_attrdef" AS SELECT 0::UINTEGER AS oid, 0::UINTEGER AS adrelid, 0::SMALLINT AS adnum, '' AS adbin, '' AS adsrc WHERE FALSE;
CREATE VIEW "pg_catalog.pg_enum" AS SELECT 0::UINTEGER AS oid, 0::UINTEGER AS enumtypid, '' AS enumlabel, 0::FLOAT AS enumsortorder WHERE FALSE;
CREATE VIEW "pg_catalog.pg_inherits" AS SELECT 0::UINTEGER AS inhrelid, 0::UINTEGER AS inhparent, 0::INTEGER AS inhseqno, FALSE AS inhdetachpending WHERE FALSE;
CREATE VIEW "pg_catalog.pg_proc" AS SELECT oid, name || f AS proname, 11::UINTEGER AS pronamespace, 10::UINTEGER AS proowner, 0::UINTEGER AS prolang, 'f' AS prokind, FALSE AS proretset, 0::UINTEGER AS prorettype, NULL::UINTEGER[] AS proargtypes, '' AS prosrc,
    NULL::UINTEGER[] AS proallargtypes, NULL::VARCHAR[] AS proargnames, NULL::VARCHAR[] AS proargmodes, 'v' AS provolatile, 's' AS proparallel, FALSE AS prosecdef, NULL::VARCHAR AS proacl, 0::UINTEGER AS provariadic, 0::SMALLINT AS pronargs FROM "base.types", (VALUES ('')) AS t (f) WHERE FALSE;
CREATE VIEW "pg_catalog.pg_aggregate" AS SELECT 0::UINTEGER AS aggfnoid WHERE FALSE;
CREATE VIEW "pg_catalog.pg_operator" AS SELECT 0::UINTEGER AS oid, '' AS oprname, 0::UINTEGER AS oprnamespace WHERE FALSE;
CREATE VIEW "pg_catalog.pg_opclass" AS SELECT 0::UINTEGER AS oid, '' AS opcname, FALSE AS opcdefault, 0::UINTEGER AS opcnamespace, 0::UINTEGER AS opcmethod WHERE FALSE;
CREATE VIEW "pg_catalog.pg_range" AS SELECT 0::UINTEGER AS rngtypid, 0::UINTEGER AS rngsubtype, 0::UINTEGER AS rngmultitypid WHERE FALSE;
CREATE VIEW "pg_catalog.pg_sequence" AS SELECT 0::UINTEGER AS seqrelid, 0::UINTEGER AS seqtypid, 0::BIGINT AS seqstart, 0::BIGINT AS seqincrement, 0::BIGINT AS seqmax, 0::BIGINT AS seqmin, 0::BIGINT AS seqcache, FALSE AS seqcycle WHERE FALSE;
CREATE VIEW "pg_catalog.pg_sequences" AS SELECT '' AS schemaname, '' AS sequencename WHERE FALSE;
CREATE VIEW "pg_catalog.pg_depend" AS SELECT 0::UINTEGER AS classid, 0::UINTEGER AS objid, 0::INTEGER AS objsubid, 0::UINTEGER AS refclassid, 0::UINTEGER AS refobjid, 0::INTEGER AS refobjsubid, 'n' AS deptype WHERE FALSE;
CREATE VIEW "pg_catalog.pg_policy" AS SELECT 0::UINTEGER AS oid, '' AS polname, 0::UINTEGER AS polrelid, '' AS polcmd, FALSE AS polpermissive, NULL::UINTEGER[] AS polroles, '' AS polqual, '' AS polwithcheck WHERE FALSE;
CREATE VIEW "pg_catalog.pg_policies" AS SELECT '' AS schemaname, '' AS tablename, '' AS policyname WHERE FALSE;
CREATE VIEW "pg_catalog.pg_trigger" AS SELECT 0::UINTEGER AS oid, '' AS tgname, 0::UINTEGER AS tgrelid, FALSE AS tgisinternal, '' AS tgenabled, 0::UINTEGER AS tgparentid, 0::UINTEGER AS tgfoid, 0::UINTEGER AS tgconstraint WHERE FALSE;
CREATE VIEW "pg_catalog.pg_rewrite" AS SELECT 0::UINTEGER AS oid, '' AS rulename, 0::UINTEGER AS ev_class, '' AS ev_enabled, '' AS ev_type, FALSE AS is_instead WHERE FALSE;
CREATE VIEW "pg_catalog.pg_foreign_table" AS SELECT 0::UINTEGER AS ftrelid, 0::UINTEGER AS ftserver, NULL::VARCHAR[] AS ftoptions WHERE FALSE;
CREATE VIEW "pg_catalog.pg_foreign_server" AS SELECT 0::UINTEGER AS oid, '' AS srvname WHERE FALSE;
CREATE VIEW "pg_catalog.pg_partitioned_table" AS SELECT 0::UINTEGER AS partrelid WHERE FALSE;
CREATE VIEW "pg_catalog.pg_statistic_ext" AS SELECT 0::UINTEGER AS oid, 0::UINTEGER AS stxrelid, 0::UINTEGER AS stxnamespace, '' AS stxname, NULL::VARCHAR[] AS stxkind, 0::INTEGER AS stxstattarget WHERE FALSE;
CREATE VIEW "pg_catalog.pg_publication" AS SELECT 0::UINTEGER AS oid, '' AS pubname, FALSE AS puballtables WHERE FALSE;
CREATE VIEW "pg_catalog.pg_publication_rel" AS SELECT 0::UINTEGER AS oid, 0::UINTEGER AS prpubid, 0::UINTEGER AS prrelid, '' AS prqual, NULL::SMALLINT[] AS prattrs WHERE FALSE;
CREATE VIEW "pg_catalog.pg_publication_namespace" AS SELECT 0::UINTEGER AS oid, 0::UINTEGER AS pnpubid, 0::UINTEGER AS pnnspid WHERE FALSE;
CREATE VIEW "pg_catalog.pg_extension" AS SELECT 0::UINTEGER AS oid, '' AS extname, '' AS extversion, 0::UINTEGER AS extnamespace WHERE FALSE;
CREATE VIEW "pg_catalog.pg_auth_members" AS SELECT 0::UINTEGER AS roleid, 0::UINTEGER AS member, FALSE AS admin_option WHERE FALSE;
CREATE VIEW "pg_catalog.pg_shdescription" AS SELECT 0::UINTEGER AS objoid, 0::UINTEGER AS classoid, '' AS description WHERE FALSE;
CREATE VIEW "pg_catalog.pg_stat_activity" AS SELECT 0::INTEGER AS pid, '' AS usename, '' AS datname, '' AS query, '' AS state WHERE FALSE;
CREATE VIEW "pg_catalog.pg_locks" AS SELECT 0::INTEGER AS pid, '' AS locktype WHERE FALSE;
CREATE VIEW "pg_catalog.pg_cursors" AS SELECT '' AS name, '' AS statement WHERE FALSE;
CREATE VIEW "pg_catalog.pg_prepared_statements" AS SELECT '' AS name, '' AS statement WHERE FALSE;
CREATE VIEW "pg_catalog.pg_timezone_names" AS SELECT 'UTC' AS name, 'UTC' AS abbrev, INTERVAL '0' SECOND AS utc_offset, FALSE AS is_dst;

CREATE VIEW "information_schema.schemata" AS SELECT 'cleave' AS catalog_name, name AS schema_name, 'cleave' AS schema_owner, NULL::VARCHAR AS default_character_set_catalog, NULL::VARCHAR AS default_character_set_schema, NULL::VARCHAR AS default_character_set_name, NULL::VARCHAR AS sql_path FROM "base.namespaces";
CREATE VIEW "information_schema.tables" AS
SELECT 'cleave' AS table_catalog, 'public' AS table_schema, name AS table_name, 'BASE TABLE' AS table_type, NULL::VARCHAR AS self_referencing_column_name, NULL::VARCHAR AS reference_generation,
    NULL::VARCHAR AS user_defined_type_catalog, NULL::VARCHAR AS user_defined_type_schema, NULL::VARCHAR AS user_defined_type_name, 'NO' AS is_insertable_into, 'NO' AS is_typed, NULL::VARCHAR AS commit_action FROM "base.tables";
CREATE VIEW "information_schema.columns" AS
SELECT 'cleave' AS table_catalog, 'public' AS table_schema, t.name AS table_name, c.name AS column_name, c.num::INTEGER AS ordinal_position, NULL::VARCHAR AS column_default, if(c.required, 'NO', 'YES') AS is_nullable,
    y.shown AS data_type, NULL::INTEGER AS character_maximum_length, if(y.category = 'S', 1073741824, NULL)::INTEGER AS character_octet_length,
    CASE y.oid WHEN 20 THEN 64 WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 700 THEN 24 WHEN 701 THEN 53 WHEN 1700 THEN if(c.modifier < 0, NULL, (c.modifier - 4) >> 16) END::INTEGER AS numeric_precision,
    CASE WHEN y.oid IN (20, 21, 23, 700, 701) THEN 2 WHEN y.oid = 1700 THEN 10 END::INTEGER AS numeric_precision_radix,
    CASE WHEN y.oid IN (20, 21, 23) THEN 0 WHEN y.oid = 1700 AND c.modifier >= 0 THEN (c.modifier - 4) & 65535 END::INTEGER AS numeric_scale,
    CASE WHEN y.oid = 1082 THEN 0 WHEN y.category IN ('D', 'T') THEN 6 END::INTEGER AS datetime_precision, NULL::VARCHAR AS interval_type, NULL::INTEGER AS interval_precision,
    NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema, NULL::VARCHAR AS character_set_name, NULL::VARCHAR AS collation_catalog, NULL::VARCHAR AS collation_schema, NULL::VARCHAR AS collation_name,
    NULL::VARCHAR AS domain_catalog, NULL::VARCHAR AS domain_schema, NULL::VARCHAR AS domain_name, 'cleave' AS udt_catalog, 'pg_catalog' AS udt_schema, y.name AS udt_name,
    c.num::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity, NULL::VARCHAR AS identity_generation, 'NEVER' AS is_generated, NULL::VARCHAR AS generation_expression, 'NO' AS is_updatable
FROM "base.columns" c JOIN "base.tables" t ON t.oid = c.relid JOIN "base.types" y ON y.oid = c.type;
CREATE VIEW "information_schema.table_constraints" AS
SELECT 'cleave' AS constraint_catalog, 'public' AS constraint_schema, name || '_pkey' AS constraint_name, 'cleave' AS table_catalog, 'public' AS table_schema, name AS table_name, 'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred, 'YES' AS enforced
FROM "base.tables" WHERE has_key(oid);
CREATE VIEW "information_schema.key_column_usage" AS
SELECT 'cleave' AS constraint_catalog, 'public' AS constraint_schema, t.name || '_pkey' AS constraint_name, 'cleave' AS table_catalog, 'public' AS table_schema, t.name AS table_name, c.name AS column_name, c.key::INTEGER AS ordinal_position, NULL::INTEGER AS position_in_unique_constraint
FROM "base.columns" c JOIN "base.tables" t ON t.oid = c.relid WHERE c.key IS NOT NULL;
CREATE VIEW "information_schema.constraint_column_usage" AS SELECT table_catalog, table_schema, table_name, column_name, constraint_catalog, constraint_schema, constraint_name FROM "information_schema.key_column_usage";
CREATE VIEW "information_schema.referential_constraints" AS SELECT '' AS constraint_catalog, '' AS constraint_schema, '' AS constraint_name, '' AS unique_constraint_catalog, '' AS unique_constraint_schema, '' AS unique_constraint_name, '' AS match_option, '' AS update_rule, '' AS delete_rule WHERE FALSE;
CREATE VIEW "information_schema.views" AS SELECT '' AS table_catalog, '' AS table_schema, '' AS table_name, '' AS view_definition, '' AS is_updatable WHERE FALSE;
CREATE VIEW "information_schema.routines" AS SELECT '' AS specific_schema, '' AS specific_name, '' AS routine_catalog, '' AS routine_schema, '' AS routine_name, '' AS routine_type, '' AS data_type WHERE FALSE;
CREATE VIEW "information_schema.parameters" AS SELECT '' AS specific_schema, '' AS specific_name, '' AS parameter_name, 0::INTEGER AS ordinal_position, '' AS parameter_mode, '' AS data_type WHERE FALSE;
CREATE VIEW "information_schema.sequences" AS SELECT '' AS sequence_catalog, '' AS sequence_schema, '' AS sequence_name WHERE FALSE;
CREATE VIEW "information_schema.triggers" AS SELECT '' AS trigger_schema, '' AS trigger_name, '' AS event_object_schema, '' AS event_object_table WHERE FALSE;
CREATE VIEW "information_schema.table_privileges" AS SELECT 'cleave' AS grantor, session('user') AS grantee, 'cleave' AS table_catalog, 'public' AS table_schema, name AS table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable, 'YES' AS with_hierarchy FROM "base.tables";
CREATE VIEW "information_schema.role_table_grants" AS FROM "information_schema.table_privileges";
CREATE VIEW "information_schema.column_privileges" AS
SELECT 'cleave' AS grantor, session('user') AS grantee, 'cleave' AS table_catalog, 'public' AS table_schema, t.name AS table_name, c.name AS column_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable FROM "base.columns" c JOIN "base.tables" t ON t.oid = c.relid;
CREATE VIEW "information_schema.character_sets" AS SELECT NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema, 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use, 'cleave' AS default_collate_catalog, 'pg_catalog' AS default_collate_schema, 'C' AS default_collate_name;
CREATE VIEW "information_schema.information_schema_catalog_name" AS SELECT 'cleave' AS catalog_name;
CREATE VIEW "information_schema.domains" AS SELECT '' AS domain_schema, '' AS domain_name WHERE FALSE;
CREATE VIEW "information_schema.enabled_roles" AS SELECT session('user') AS role_name;
