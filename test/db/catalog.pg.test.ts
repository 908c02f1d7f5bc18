import type { Sql } from 'postgres'
import { beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/db/apply-migrations.ts'
import { connect } from '../../src/db/client.ts'
import { scratchDatabase } from './scratch-database.ts'

/**
 * The specification's tables, row by row: a column's name, its type in the specification's words, and ", nullable".
 * Below them what we add. A column, an index, a constraint that stands in neither is a failure.
 */
const SPECIFIED: Record<string, Record<string, string>> = {
  s: {
    id: 'bigint PK',
    provider: 'string',
    name: 'string',
    credentials: 'text',
    metadata: 'json, nullable',
    owner_type: 'string, nullable',
    owner_id: 'bigint, nullable',
    is_active: 'boolean, default true',
    health_status: 'string, default healthy',
    consecutive_failures: 'int, default 0',
    last_error_at: 'timestamp, nullable',
    anomaly_alerted_at: 'timestamp, nullable',
    last_synced_at: 'timestamp, nullable',
    next_sync_at: 'timestamp, nullable',
    consecutive_sync_failures: 'int, default 0',
    sync_stale_alerted_at: 'timestamp, nullable',
    sync_interval_minutes: 'int, nullable',
    sync_cursor: 'json, nullable',
    circuit_override: 'string, nullable',
    circuit_override_until: 'timestamp, nullable',
    rate_limit_override: 'json, nullable',
    rate_limit_override_until: 'timestamp, nullable',
  },
  _requests: {
    id: 'bigint PK',
    integration_id: 'bigint',
    endpoint: 'string',
    method: 'string',
    status_code: 'int, nullable',
    request_data: 'text, nullable',
    idempotency_key: 'string, nullable',
    provider_request_id: 'string, nullable',
    response_data: 'text, nullable',
    error: 'text, nullable',
    failure_class: 'string, nullable',
    duration_ms: 'int, nullable',
    retry_of: 'bigint, nullable',
    related_type: 'string, nullable',
    related_id: 'bigint, nullable',
    cache_hits: 'int, default 0',
    stale_hits: 'int, default 0',
  },
  _logs: {
    id: 'bigint PK',
    integration_id: 'bigint',
    operation: 'string',
    direction: 'string',
    status: 'string',
    summary: 'string, nullable',
    external_id: 'string, nullable',
    metadata: 'json, nullable',
    result_data: 'json, nullable',
    error: 'text, nullable',
    attempt: 'smallint, nullable',
    max_attempts: 'smallint, nullable',
    duration_ms: 'int, nullable',
    parent_id: 'bigint, nullable',
  },
  _mappings: {
    id: 'bigint PK',
    integration_id: 'bigint',
    external_id: 'string(500)',
    internal_type: 'string',
    internal_id: 'string',
  },
  _idempotency_keys: {
    id: 'bigint PK',
    integration_id: 'bigint',
    key: 'string(191)',
    owner: 'string, nullable',
    turn_ends_at: 'timestamp, nullable',
  },
  _sync_items: {
    id: 'bigint PK',
    integration_id: 'bigint',
    batch_id: 'string(36), nullable',
    sync_log_id: 'bigint, nullable',
    event_class: 'string',
    external_id: 'string(500), nullable',
    checkpoint_value: 'json, nullable',
    status: 'string(16), default pending',
    error: 'text, nullable',
    attempts: 'smallint, default 0',
    completed_at: 'timestamp, nullable',
  },
  _incidents: {
    id: 'bigint PK',
    integration_id: 'bigint',
    status: 'string(16), default open',
    source: 'string(16)',
    reason: 'string',
    peak_severity: 'string',
    opened_at: 'timestamp',
    last_error_at: 'timestamp, nullable',
    closed_at: 'timestamp, nullable',
  },
  _webhooks: {
    id: 'bigint PK',
    integration_id: 'bigint',
    delivery_id: 'string',
    event_type: 'string, nullable',
    payload: 'text',
    headers: 'json',
    status: 'string, default pending',
    attempts: 'smallint, default 0',
    error: 'text, nullable',
    processed_at: 'timestamp, nullable',
  },
}

const ADDED: typeof SPECIFIED = {
  s: { switched_off_at: 'timestamp, nullable', tokens_refused_at: 'timestamp, nullable' },
  _requests: {
    expires_at: 'timestamp, nullable',
    request_hash: 'string(64), nullable',
    origin: 'string(32), nullable',
  },
  _logs: { origin: 'string(32), nullable', stream: 'string(60), nullable' },
  _mappings: { origin: 'string(32), nullable' },
  _sync_items: {
    payload: 'json, nullable',
    claim: 'string(120), nullable',
    last_error: 'text, nullable',
    next_attempt_at: 'timestamp, nullable',
    put_off: 'smallint, default 0',
    is_own: 'boolean, nullable',
    stream: 'string(60), nullable',
    record_hash: 'string(64), nullable',
  },
  _deliveries: {
    id: 'bigint PK',
    integration_id: 'bigint',
    delivery_id: 'string',
    payload: 'text',
    headers: 'json',
    parts: 'int',
  },
  _record_hashes: {
    id: 'bigint PK',
    integration_id: 'bigint',
    stream: 'string(60), default ',
    event_class: 'string',
    external_id: 'string(500)',
    hash: 'string(64), nullable',
    is_handled: 'boolean, default true',
    deleted_at: 'timestamp, nullable',
    listed_log_id: 'bigint, nullable',
    full_log_id: 'bigint, nullable',
    listed_part: 'int, nullable',
  },
  _streams: {
    integration_id: 'bigint',
    stream: 'string(60)',
    last_synced_at: 'timestamp, nullable',
    last_run_at: 'timestamp, nullable',
    next_sync_at: 'timestamp, nullable',
    consecutive_sync_failures: 'int, default 0',
    sync_stale_alerted_at: 'timestamp, nullable',
    sync_interval_seconds: 'int, nullable',
    sync_cursor: 'json, nullable',
    full_begun_at: 'timestamp, nullable',
    last_full_at: 'timestamp, nullable',
    changes_seen: 'double, default 0',
    seconds_seen: 'double, default 0',
    calls_per_run: 'double, nullable',
    observed_at: 'timestamp, nullable',
    adaptive_seconds: 'double, nullable',
    adaptive_reason: 'string(20), nullable',
  },
  _incidents: {
    followed_at: 'timestamp, nullable',
    acknowledged_at: 'timestamp, nullable',
    acknowledged_by: 'string, nullable',
    snoozed_until: 'timestamp, nullable',
    snoozed_by: 'string, nullable',
    annotations: 'json, default []',
  },
  _tokens: {
    id: 'bigint PK',
    name: 'string',
    sha256: 'string(64)',
    scope: 'string(16)',
    provider: 'string, nullable',
    owner_type: 'string, nullable',
    owner_id: 'bigint, nullable',
    expires_at: 'timestamp, nullable',
    created_by: 'string',
    revoked_at: 'timestamp, nullable',
    last_used_at: 'timestamp, nullable',
  },
  _sync_starts: {
    integration_id: 'bigint',
    stream: 'string(60), default ',
    again_at: 'timestamp, nullable',
    later_at: 'timestamp, nullable',
    later_since: 'timestamp, nullable',
  },
  _written_records: {
    id: 'bigint PK',
    integration_id: 'bigint',
    key: 'string',
    hash: 'string(64), nullable',
    writing: 'uuid, nullable',
    is_new: 'boolean, default false',
    arrival: 'string(32), nullable',
    request_id: 'bigint, nullable',
    is_answered: 'boolean, default false',
    answers: 'timestamps, default {}',
    looping_since: 'timestamp, nullable',
  },
  _webhook_subscriptions: {
    integration_id: 'bigint',
    is_wanted: 'boolean',
    subscription_id: 'string, nullable',
    url: 'text, nullable',
    expires_at: 'timestamp, nullable',
    renewed_at: 'timestamp, nullable',
    secret_mark: 'string(64), nullable',
    claim: 'int, default 0',
    checked_at: 'timestamp, nullable',
    next_check_at: 'timestamp, nullable',
    failures: 'int, default 0',
    failing_since: 'timestamp, nullable',
    last_error: 'text, nullable',
    alerted_at: 'timestamp, nullable',
  },
  _rollups: {
    id: 'bigint PK',
    seconds: 'int',
    starts_at: 'timestamp',
    integration_id: 'bigint, nullable',
    provider: 'string, nullable',
    calls: 'int',
    failures: 'int',
    counters: 'smallints',
    counts: 'ints',
  },
  _audit: {
    id: 'bigint PK',
    actor: 'string',
    action: 'string',
    target: 'string',
    origin: 'string, nullable',
    detail: 'string(500), nullable',
    integration_id: 'bigint, nullable',
    integration_name: 'string, nullable',
    provider: 'string, nullable',
    owner_type: 'string, nullable',
    owner_id: 'bigint, nullable',
  },
  _webhooks: {
    claim: 'string(120), nullable',
    replay_attempt: 'smallint, nullable',
    dismissed_at: 'timestamp, nullable',
    traceparent: 'string(55), nullable',
    lost_workers: 'smallint, default 0',
    is_own: 'boolean, nullable',
    part_of: 'bigint, nullable',
    part: 'int, nullable',
    ordering_key: 'string, nullable',
    key_turn: 'boolean, nullable',
    coalesces: 'boolean, nullable',
  },
  _cache: {
    key: 'text',
    value: 'json, nullable',
    owner: 'string, nullable',
    expires_at: 'timestamp, nullable',
  },
  _events: {
    id: 'bigint PK',
    integration_id: 'bigint',
    name: 'string',
    payload: 'json',
    claim: 'string(120), nullable',
    attempts: 'smallint, default 0',
    due_at: 'timestamp, default now()',
    outcomes: 'json, default {}',
    queue: "bigint, default ((integration_id * 2) + ((outcomes <> '{}'::jsonb))::integer)",
    lost_workers: 'smallint, default 0',
    delivered_at: 'timestamp, nullable',
    origin: 'string(32), nullable',
  },
  _migrations: { id: 'bigint PK', name: 'string', hash: 'string(64), nullable', release: 'string, nullable' },
}

/** On every table. */
const STAMPS = { created_at: 'timestamp, default now()', updated_at: 'timestamp, default now()' }

/** `columns`, `unique columns`, or either with `where`. */
const SPECIFIED_INDEXES: Record<string, string[]> = {
  _requests: ['integration_id, failure_class, created_at'],
  _mappings: ['unique integration_id, external_id, internal_type'],
  _idempotency_keys: ['unique integration_id, key'],
  _sync_items: ['integration_id, status', 'integration_id, created_at', 'sync_log_id, status', 'batch_id, status'],
  _incidents: [
    'integration_id, status',
    'integration_id, opened_at',
    "unique integration_id where status = 'open'", // "At most one open row per integration."
  ],
  _webhooks: ['unique integration_id, delivery_id', 'integration_id, created_at', 'status, updated_at'],
}

const ADDED_INDEXES: typeof SPECIFIED_INDEXES = {
  s: [
    'provider, id',
    'owner_type, owner_id where owner_id is not null',
    'next_sync_at NULLS FIRST, id where is_active',
  ],
  _requests: [
    'integration_id, idempotency_key where idempotency_key is not null',
    'integration_id, request_hash, id where expires_at is not null',
    'created_at',
    'retry_of where retry_of is not null',
    'origin, id where origin is not null',
    'provider_request_id where provider_request_id is not null',
    "created_at where coalesce(failure_class, '') <> ''",
    'created_at where failure_class is null and error is not null',
  ],
  _logs: [
    'integration_id, operation, id',
    'integration_id, operation, id where parent_id is null',
    "id where operation = any (array['sync', 'backfill'])",
    'created_at',
    'parent_id where parent_id is not null',
    'origin, id where origin is not null',
    'integration_id, stream, operation, id where stream is not null',
  ],
  _mappings: [
    'internal_type, internal_id, integration_id',
    'integration_id, id',
    'integration_id, created_at',
    'origin, id where origin is not null',
  ],
  _idempotency_keys: ['created_at'],
  _sync_items: [
    "(sync_log_id + 0), id where status = 'pending'",
    '(integration_id + 0), stream, status where stream is not null',
    'id where next_attempt_at is not null',
    "id where status = 'failed'",
    "integration_id, id, external_id, event_class where status = 'failed'",
    "claim where status = 'processing'",
    'integration_id, external_id, id where external_id is not null',
    "completed_at where status = 'failed' and completed_at is not null",
    "completed_at where status = any (array['success', 'skipped'])",
  ],
  _webhooks: [
    "integration_id, id where status = 'pending' and key_turn is not false",
    "integration_id, id where status = 'failed'",
    'unique integration_id, ordering_key where key_turn',
    'integration_id, ordering_key, id where key_turn is false',
    "id where status = 'pending' and lost_workers > 0",
    "claim where status = 'processing'",
    "attempts, processed_at where status = 'failed' and dismissed_at is null",
    "processed_at where status = 'failed' and dismissed_at is null and processed_at is not null",
    "id where status = 'failed' and dismissed_at is null and id > 0",
    'part_of, id where part_of is not null',
  ],
  _incidents: ['id where followed_at is null or followed_at < updated_at', "closed_at where status = 'closed'"],
  _deliveries: ['unique integration_id, delivery_id', 'created_at, id'],
  _record_hashes: ['unique integration_id, stream, external_id, event_class'],
  _streams: [
    'next_sync_at NULLS FIRST, integration_id, stream',
    'integration_id where sync_stale_alerted_at is not null',
  ],
  _cache: ['expires_at where expires_at is not null'],
  _events: [
    'due_at, id where delivered_at is null and claim is null',
    'queue, due_at, id where delivered_at is null and claim is null and lost_workers = 0',
    'lost_workers, id where delivered_at is null and claim is null and lost_workers > 0',
    'claim where delivered_at is null and claim is not null',
    'delivered_at where delivered_at is not null',
    'id where outcomes @? \'$.*?(@."status" == "given_up")\'::jsonpath',
    'integration_id',
  ],
  _tokens: ['unique sha256', 'unique name where revoked_at is null'],
  _written_records: [
    'unique integration_id, key',
    'integration_id where is_new',
    'integration_id where looping_since is not null',
    'updated_at',
  ],
  _webhook_subscriptions: [
    'next_check_at where next_check_at is not null',
    'integration_id where alerted_at is not null',
  ],
  _rollups: [
    'unique integration_id, seconds, starts_at where integration_id is not null',
    'unique provider, seconds, starts_at where provider is not null',
    'seconds, starts_at, integration_id, calls, failures',
  ],
  _audit: [
    'integration_id, id',
    "integration_id, id where split_part(action, ' ', 1) = any (array['pause', 'resume', 'cancel', 'cursor', 'erase'])",
    'target, id',
    'created_at',
  ],
  _migrations: ['unique name'],
}

/** Column, the table that it points to, what becomes of the row when that one goes. */
const FOREIGN_KEYS: Record<string, string[]> = {
  ...Object.fromEntries(
    [
      '_requests',
      '_logs',
      '_mappings',
      '_idempotency_keys',
      '_incidents',
      '_webhooks',
      '_events',
      '_sync_starts',
      '_written_records',
      '_webhook_subscriptions',
      '_streams',
      '_record_hashes',
      '_deliveries',
      '_rollups',
    ].map((table) => [table, ['integration_id -> s, cascade']]),
  ),
  _sync_items: ['integration_id -> s, cascade', 'sync_log_id -> _logs, set null'],
  _webhooks: ['integration_id -> s, cascade', 'part_of -> _deliveries, set null'],
}

/** Column to its values, or to another rule. */
const CHECKS: Record<string, Record<string, string[]>> = {
  s: { health_status: ['healthy', 'degraded', 'failing', 'disabled'] },
  _requests: { failure_class: ['upstream', 'throttle', 'client', 'unknown'] },
  _logs: { direction: ['inbound', 'outbound'] },
  _sync_items: { status: ['pending', 'processing', 'success', 'failed', 'skipped'] },
  _incidents: {
    status: ['open', 'closed'],
    source: ['health', 'circuit', 'sync', 'echo', 'webhooks', 'oauth'],
    peak_severity: ['healthy', 'degraded', 'failing', 'disabled'],
  },
  _tokens: { scope: ['read', 'operate'] },
  _webhooks: { status: ['pending', 'processing', 'processed', 'failed'], attempts: ['>= 0'] },
}

/** Of those that have no id. */
const PRIMARY_KEYS: Record<string, string> = {
  _cache: 'unique key',
  _sync_starts: 'unique integration_id, stream',
  _streams: 'unique integration_id, stream',
  _webhook_subscriptions: 'unique integration_id',
}

const TABLES = [...new Set([...Object.keys(SPECIFIED), ...Object.keys(ADDED)])]

/** docs/decisions/0002-table-types.md */
function typeInPostgres(type: string): string {
  const length = /^string\((\d+)\)$/.exec(type)?.[1]
  if (length !== undefined) return `character varying(${length})`
  const types: Record<string, string> = {
    string: 'character varying(255)',
    text: 'text',
    int: 'integer',
    smallint: 'smallint',
    bigint: 'bigint',
    double: 'double precision',
    'bigint PK': 'bigint identity',
    boolean: 'boolean',
    json: 'jsonb',
    timestamp: 'timestamp(3) with time zone',
    timestamps: 'timestamp(3) with time zone[]',
    smallints: 'smallint[]',
    ints: 'integer[]',
    uuid: 'uuid',
  }
  return types[type] ?? `no such type: ${type}`
}

/** The specification's word for a column, in Postgres' words. */
function described(column: string): string {
  const [type = '', ...notes] = column.split(', ')
  const defaultValue = notes.find((note) => note.startsWith('default '))?.slice('default '.length)
  return [
    typeInPostgres(type),
    notes.includes('nullable') ? 'null' : 'not null',
    ...(defaultValue === undefined ? [] : [`default ${defaultValue}`]),
  ].join(', ')
}

/** The second has 30 characters: the most that config `table_prefix` allows. */
const PREFIXES = ['integration', 'abcdefghijklmnopqrstuvwxyz_123'] as const

const catalogs = new Map<string, Catalog>()
const catalogOf = (prefix: string): Catalog => catalogs.get(prefix) as Catalog

beforeAll(async () => {
  const connection = connect({ database: await scratchDatabase() })
  for (const tablePrefix of PREFIXES) await migrate({ sql: connection.sql, tablePrefix })
  for (const prefix of PREFIXES) catalogs.set(prefix, await readCatalog(connection.sql, prefix))
  await connection.close()
})

describe.each(PREFIXES)('the tables of prefix %s', (prefix) => {
  it('are those of the specification and our five', () => {
    expect(catalogOf(prefix).tables.toSorted()).toEqual(TABLES.toSorted())
  })

  it('have exactly the listed columns', () => {
    for (const table of TABLES) {
      const listed = { ...SPECIFIED[table], ...ADDED[table], ...STAMPS }
      const expected = Object.entries(listed).map(([name, column]) => [name, described(column)])
      expect(catalogOf(prefix).columns[table], table).toEqual(Object.fromEntries(expected))
    }
  })

  it('have exactly the listed indexes beside their primary keys', () => {
    for (const table of TABLES) {
      const primaryKey = PRIMARY_KEYS[table] ?? 'unique id'
      const expected = [primaryKey, ...(SPECIFIED_INDEXES[table] ?? []), ...(ADDED_INDEXES[table] ?? [])]
      expect(catalogOf(prefix).indexes[table]?.toSorted(), table).toEqual(expected.sort())
    }
  })

  it('have exactly the listed foreign keys', () => {
    for (const table of TABLES)
      expect((catalogOf(prefix).foreignKeys[table] ?? []).toSorted(), table).toEqual(
        (FOREIGN_KEYS[table] ?? []).toSorted(),
      )
  })

  it('have exactly the listed checks', () => {
    for (const table of TABLES) expect(catalogOf(prefix).checks[table] ?? {}, table).toEqual(CHECKS[table] ?? {})
  })

  it('have no name that Postgres had to cut', () => {
    // Postgres cuts at 63 bytes and gives a notice only. A cut name would differ from the other prefix's.
    const endings = PREFIXES.map((each) =>
      catalogOf(each)
        .names.map((name) => name.slice(each.length))
        .sort(),
    )
    expect(endings[1]).toEqual(endings[0])
    expect(catalogOf(prefix).names.filter((name) => !name.startsWith(prefix))).toEqual([])
    expect(catalogOf(prefix).names.filter((name) => name.length - prefix.length > 32)).toEqual([])
  })
})

interface Catalog {
  /** Without the prefix, as everywhere but in `names`. */
  tables: string[]
  columns: Record<string, Record<string, string>>
  indexes: Record<string, string[]>
  foreignKeys: Record<string, string[]>
  checks: Record<string, Record<string, string[]>>
  /** Of tables, sequences, indexes, constraints and functions. */
  names: string[]
}

async function readCatalog(sql: Sql, prefix: string): Promise<Catalog> {
  const ending = (name: string) => name.slice(prefix.length)
  const ours = sql`relnamespace = 'public'::regnamespace and starts_with(relname, ${prefix})`

  const tables = await sql<{ relname: string }[]>`select relname from pg_class where relkind = 'r' and ${ours}`
  const columns = await sql<{ relname: string; attname: string; described: string }[]>`
    select relname, attname, concat_ws(', ',
      format_type(atttypid, atttypmod) || case attidentity when 'd' then ' identity' else '' end,
      case when attnotnull then 'not null' else 'null' end,
      -- 'open'::character varying -> open
      'default ' || regexp_replace(pg_get_expr(adbin, adrelid), '^''(.*)''::.*$', '\\1')) as described
    from pg_class join pg_attribute on attrelid = pg_class.oid
    left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where relkind = 'r' and attnum > 0 and not attisdropped and ${ours}`
  const indexes = await sql<{ relname: string; described: string }[]>`
    select relname, concat_ws(' ',
      case when indisunique then 'unique' end,
      (select string_agg(
          pg_get_indexdef(indexrelid, key, true) || case when indoption[key - 1] = 2 then ' NULLS FIRST' else '' end,
          ', ' order by key)
        from generate_series(1, indnkeyatts) as key),
      'where ' || lower(regexp_replace(pg_get_expr(indpred, indrelid, true), '::(text|character varying)(\\[\\])?', '', 'g'))
    ) as described
    from pg_class join pg_index on indrelid = pg_class.oid where ${ours}`
  const foreignKeys = await sql<{ relname: string; columns: string; target: string; action: string }[]>`
    select relname, confrelid::regclass::text as target,
      case confdeltype when 'c' then 'cascade' when 'n' then 'set null' else confdeltype::text end as action,
      (select string_agg(attname, ', ') from pg_attribute where attrelid = conrelid and attnum = any (conkey)) as columns
    from pg_class join pg_constraint on conrelid = pg_class.oid where contype = 'f' and ${ours}`
  const checks = await sql<{ relname: string; attname: string; rule: string }[]>`
    select relname, attname, pg_get_expr(conbin, conrelid, true) as rule
    from pg_class join pg_constraint on conrelid = pg_class.oid
    join pg_attribute on attrelid = conrelid and attnum = conkey[1] where contype = 'c' and ${ours}`
  // Postgres 18 names not-null constraints, too; those it makes up itself, and to measure.
  const names = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind in ('r', 'i', 'S') and ${ours}
    union
    select conname from pg_class join pg_constraint on conrelid = pg_class.oid where contype <> 'n' and ${ours}
    union
    select proname from pg_proc where pronamespace = 'public'::regnamespace and starts_with(proname, ${prefix})`

  const byTable = <Row extends { relname: string }, Value>(rows: readonly Row[], of: (rows: Row[]) => Value) =>
    Object.fromEntries(
      [...new Set(rows.map((row) => row.relname))].map((table) => [
        ending(table),
        of(rows.filter((row) => row.relname === table)),
      ]),
    )
  return {
    tables: tables.map((row) => ending(row.relname)),
    columns: byTable(columns, (rows) => Object.fromEntries(rows.map((row) => [row.attname, row.described]))),
    indexes: byTable(indexes, (rows) => rows.map((row) => row.described)),
    foreignKeys: byTable(foreignKeys, (rows) =>
      rows.map((row) => `${row.columns} -> ${ending(row.target)}, ${row.action}`),
    ),
    checks: byTable(checks, (rows) => Object.fromEntries(rows.map((row) => [row.attname, valuesIn(row)]))),
    names: names.map((row) => row.name),
  }
}

/** `status::text = ANY (ARRAY['a'::character varying, ...])` to its values; any other rule as it stands, without the column. */
function valuesIn({ attname, rule }: { attname: string; rule: string }): string[] {
  const values = [...rule.matchAll(/'([^']*)'/g)].map((match) => match[1] as string)
  return values.length > 0 ? values : [rule.replace(`${attname} `, '')]
}
