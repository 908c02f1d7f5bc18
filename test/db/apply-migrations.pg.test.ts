import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { assertMigrated, migrate, pendingMigrations } from '../../src/db/apply-migrations.ts'
import type { Connection } from '../../src/db/client.ts'
import { connect } from '../../src/db/client.ts'
import { createTables } from '../../src/db/schema/tables.ts'
import { scratchDatabase } from './scratch-database.ts'

const ROOT = join(import.meta.dirname, '../..')
const namesIn = async (folder: string): Promise<string[]> =>
  (await readdir(join(ROOT, 'drizzle', folder)))
    .filter((file) => file.endsWith('.sql'))
    .map((file) => join(folder, file.replace('.sql', '')))
const MIGRATIONS = await namesIn('')
const FUNCTIONS = await namesIn('functions')
const KNOWN = [...MIGRATIONS, ...FUNCTIONS]

let database: string
let connection: Connection

beforeEach(async () => {
  database = await scratchDatabase()
  connection = connect({ database })
  return () => connection.close()
})

describe('migrating', () => {
  it('applies every file once and names what it applied', async () => {
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    expect(await pendingMigrations(target)).toEqual(KNOWN)
    expect(await migrate(target)).toEqual({ applied: KNOWN })
    expect(await pendingMigrations(target)).toEqual([])
    expect(await migrate(target)).toEqual({ applied: [] })
  })

  it('keeps the rows of a database that is up to date', async () => {
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    await migrate(target)
    const { integrations } = createTables('integration')
    await connection.db.insert(integrations).values({ provider: 'github', name: 'ours', credentials: 'sealed' })
    await migrate(target)
    expect(await connection.db.select({ name: integrations.name }).from(integrations)).toEqual([{ name: 'ours' }])
  })

  it('applies each file once when ten processes migrate the same new schema at the same moment', async () => {
    const processes = Array.from({ length: 10 }, () => connect({ database, pool: { max: 1 } }))
    const results = await Promise.all(
      processes.map(({ sql }) => migrate({ sql, tablePrefix: 'integration', schema: 'app' })),
    )
    await Promise.all(processes.map((each) => each.close()))
    expect(results.flatMap((result) => result.applied).sort()).toEqual(KNOWN)
  })

  it('lets two prefixes create the same schema at the same moment', async () => {
    const prefixes = ['one', 'two']
    await Promise.all(prefixes.map((tablePrefix) => migrate({ sql: connection.sql, tablePrefix, schema: 'app' })))
    expect(await tablesOf('app')).toHaveLength(2 * (await tablesOf('app', 'one')).length)
  })

  it('keeps two prefixes of one database apart', async () => {
    for (const tablePrefix of ['integration', 'other']) await migrate({ sql: connection.sql, tablePrefix })
    const first = createTables('integration')
    const second = createTables('other')
    await connection.db.insert(first.integrations).values({ provider: 'github', name: 'ours', credentials: 'sealed' })
    expect(await connection.db.$count(first.integrations)).toBe(1)
    expect(await connection.db.$count(second.integrations)).toBe(0)
  })

  it('puts everything into another schema, whatever its name, and nothing into public', async () => {
    const schema = `Host's "own" $& schema`
    await migrate({ sql: connection.sql, tablePrefix: 'integration', schema })
    expect(await tablesOf('public')).toEqual([])
    const { integrations, logs } = createTables('integration', schema)
    const [integration] = await connection.db
      .insert(integrations)
      .values({ provider: 'github', name: 'ours', credentials: 'sealed' })
      .returning()
    const log = {
      integrationId: integration?.id ?? 0,
      operation: 'sync',
      direction: 'inbound',
      status: 'success',
    } as const
    await connection.db.insert(logs).values(log)
    await connection.db.delete(integrations)
    expect(await connection.db.$count(logs)).toBe(0)
  })

  it('does not follow the search_path of the role', async () => {
    await connection.sql`create schema elsewhere`
    const misled = connect({ database: `${database}?search_path=elsewhere` })
    await migrate({ sql: misled.sql, tablePrefix: 'integration' })
    expect(await misled.db.$count(createTables('integration').webhooks)).toBe(0)
    await misled.close()
    expect(await tablesOf('elsewhere')).toEqual([])
  })

  it('needs no right to create schemas when the schema is there', async () => {
    const role = `limited_${Math.random().toString(36).slice(2)}`
    await connection.sql.unsafe(`create role ${role} login password 'x'; create schema app authorization ${role}`)
    const limited = connect({ database: Object.assign(new URL(database), { username: role, password: 'x' }).href })
    expect(await migrate({ sql: limited.sql, tablePrefix: 'integration', schema: 'app' })).toEqual({ applied: KNOWN })
    await limited.close()
  })

  it('leaves nothing behind when a file fails, and succeeds once the cause is gone', async () => {
    await connection.sql`create table integration_webhooks ()`
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    await expect(migrate(target)).rejects.toThrow('relation "integration_webhooks" already exists')
    expect(await tablesOf('public')).toEqual(['integration_webhooks'])
    await connection.sql`drop table integration_webhooks`
    expect(await migrate(target)).toEqual({ applied: KNOWN })
  })

  it.each(['', '1st', 'Integration', 'a-b', 'x"; drop table y; --', 'a'.repeat(31)])(
    'refuses the prefix %j',
    async (tablePrefix) => {
      await expect(migrate({ sql: connection.sql, tablePrefix })).rejects.toMatchObject({ code: 'invalid_argument' })
    },
  )

  it.each(['', 'a'.repeat(64), 'ä'.repeat(32), 'a\0b'])('refuses the schema %j', async (schema) => {
    const target = { sql: connection.sql, tablePrefix: 'integration', schema }
    await expect(migrate(target)).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})

describe('migrating functions', () => {
  const target = () => ({ sql: connection.sql, tablePrefix: 'integration' })
  const NAME = 'functions/is_breaker_well'

  /** As a release of before has left it: another body, and the hash of another text. */
  async function putEarlierFunction(): Promise<void> {
    await connection.sql`
      create or replace function integration_is_breaker_well(p_breaker jsonb, p_cooldown_seconds bigint, p_now_ms bigint)
      returns boolean language sql immutable as 'select null::boolean'`
    await connection.sql`update integration_migrations set hash = 'earlier', release = '0.0.1' where name = ${NAME}`
  }

  const isClosedWell = async (): Promise<unknown> =>
    (await connection.sql`select integration_is_breaker_well(null, null, 0) as well`)[0]?.well

  it('applies one whose text has changed again, and no other', async () => {
    await migrate(target())
    await putEarlierFunction()
    expect(await pendingMigrations(target())).toEqual([NAME])
    expect(await migrate(target())).toEqual({ applied: [NAME] })
    expect(await isClosedWell()).toBe(true)
    expect(await pendingMigrations(target())).toEqual([])
  })

  it('writes down hash and release of what it has applied', async () => {
    await migrate(target())
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    const rows = await connection.sql`select name, hash, release from integration_migrations order by id`
    expect(rows).toEqual([
      ...MIGRATIONS.map((name) => ({ name, hash: null, release: version })),
      ...FUNCTIONS.map((name) => ({ name, hash: expect.stringMatching(/^[0-9a-f]{64}$/), release: version })),
    ])
  })

  it('applies a changed one once when ten processes migrate at the same moment', async () => {
    await migrate(target())
    await putEarlierFunction()
    const processes = Array.from({ length: 10 }, () => connect({ database, pool: { max: 1 } }))
    const results = await Promise.all(processes.map(({ sql }) => migrate({ sql, tablePrefix: 'integration' })))
    await Promise.all(processes.map((each) => each.close()))
    expect(results.flatMap((result) => result.applied)).toEqual([NAME])
  })

  it('leaves none of the functions behind when one fails, and succeeds once the cause is gone', async () => {
    // Postgres replaces no function by one with another return type.
    await connection.sql`
      create function integration_settle_joined(p_ended jsonb, p_rows jsonb, p_now bigint) returns text language sql as 'select null'`
    await expect(migrate(target())).rejects.toThrow('cannot change return type of existing function')
    const names = await connection.sql`select proname from pg_proc where starts_with(proname, 'integration_')`
    expect(names.map((row) => row.proname)).toEqual(['integration_settle_joined'])
    expect(await pendingMigrations(target())).toEqual(FUNCTIONS)
    await connection.sql`drop function integration_settle_joined`
    expect(await migrate(target())).toEqual({ applied: FUNCTIONS })
  })

  it.each([
    { release: '999.0.0', applied: [] },
    { release: '0.0.1', applied: [NAME] },
    { release: '0.0.1-beta.2', applied: [NAME] },
    { release: null, applied: [NAME] },
  ])('of one that release $release has put there: applies $applied', async ({ release, applied }) => {
    await migrate(target())
    await connection.sql`update integration_migrations set hash = 'another', release = ${release} where name = ${NAME}`
    expect(await pendingMigrations(target())).toEqual(applied)
    expect(await migrate(target())).toEqual({ applied })
  })
})

describe('starting', () => {
  it('fails on a database that is behind, and says by how much', async () => {
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    await expect(assertMigrated(target)).rejects.toMatchObject({
      code: 'schema_behind',
      applied: 0,
      known: KNOWN.length,
    })
    await migrate(target)
    await connection.sql`delete from integration_migrations where name = ${KNOWN.at(-1) as string}`
    await expect(assertMigrated(target)).rejects.toMatchObject({ code: 'schema_behind', applied: KNOWN.length - 1 })
  })

  it('fails on a database with the function of an earlier release', async () => {
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    await migrate(target)
    await connection.sql`update integration_migrations set hash = 'earlier' where name = ${FUNCTIONS[0] as string}`
    await expect(assertMigrated(target)).rejects.toMatchObject({ code: 'schema_behind', applied: KNOWN.length - 1 })
  })

  it('works on a database that a newer release has migrated', async () => {
    const target = { sql: connection.sql, tablePrefix: 'integration' }
    await migrate(target)
    await connection.sql`update integration_migrations set hash = 'newer', release = '999.0.0' where hash is not null`
    await connection.sql`insert into integration_migrations (name) values ('9999_of_tomorrow')`
    await expect(assertMigrated(target)).resolves.toBeUndefined()
    expect(await migrate(target)).toEqual({ applied: [] })
  })
})

describe("a host's drizzle-kit, as docs/using-it.md has it", () => {
  const HOST_TABLES = `import { integer, pgTable } from 'drizzle-orm/pg-core'
export const issues = pgTable('issues', { id: integer().primaryKey().generatedAlwaysAsIdentity() })
`

  /** In a folder below this one, where Node finds `drizzle-orm`. @returns what it said */
  async function drizzleKit(...commands: readonly (readonly string[])[]): Promise<string> {
    await mkdir(join(ROOT, '.data'), { recursive: true })
    const cwd = await mkdtemp(join(ROOT, '.data', 'drizzle-kit-'))
    onTestFinished(() => rm(cwd, { recursive: true }))
    const config = { dialect: 'postgresql', schema: './tables.ts', dbCredentials: { url: database } }
    await writeFile(join(cwd, 'tables.ts'), HOST_TABLES)
    await writeFile(join(cwd, 'drizzle.config.ts'), `export default ${JSON.stringify(config)}`)
    let said = ''
    for (const command of commands) {
      const { stdout, stderr } = await promisify(execFile)(join(ROOT, 'node_modules/.bin/drizzle-kit'), command, {
        cwd,
      })
      said += stdout + stderr
    }
    return said
  }

  it('leaves our tables alone where it generates migrations and applies them', async () => {
    await migrate({ sql: connection.sql, tablePrefix: 'integration' })
    const ours = await tablesOf('public')
    await drizzleKit(['generate'], ['migrate'])
    expect(await tablesOf('public')).toEqual([...ours, 'issues'].sort())
  })

  it('leaves them alone where it pushes, if they have a schema of their own', async () => {
    await migrate({ sql: connection.sql, tablePrefix: 'integration', schema: 'integrations' })
    const ours = await tablesOf('integrations')
    expect(await drizzleKit(['push', '--force', '--verbose'])).not.toMatch(/\b(drop|alter)\b/i)
    expect(await tablesOf('integrations')).toEqual(ours)
    expect(await tablesOf('public')).toEqual(['issues'])
  })
})

describe('the files in drizzle/', () => {
  it('are what drizzle-kit makes of the schema', async () => {
    const out = await mkdtemp(join(tmpdir(), 'drizzle-'))
    onTestFinished(() => rm(out, { recursive: true }))
    await cp(join(ROOT, 'drizzle'), out, { recursive: true })
    // It takes `out` for a path below its working directory, and exits with 0 when it fails.
    const { stdout } = await promisify(execFile)(
      join(ROOT, 'node_modules/.bin/drizzle-kit'),
      ['generate', '--dialect=postgresql', '--schema=./src/db/schema/templates.ts', `--out=${relative(ROOT, out)}`],
      { cwd: ROOT },
    )
    expect(stdout).toContain('No schema changes, nothing to migrate')
    expect(await readdir(out)).toEqual(await readdir(join(ROOT, 'drizzle')))
  })

  it.each(FUNCTIONS)('%s holds one function, which has its name and can be put over itself', async (name) => {
    const template = await readFile(join(ROOT, 'drizzle', `${name}.sql`), 'utf8')
    const made = template.matchAll(/^create (.*?function) "__schema__"\."__prefix___([a-z_]+)"/gim)
    expect([...made].map(([, how, of]) => [how?.toLowerCase(), of])).toEqual([['or replace function', basename(name)]])
  })

  it('hold both tokens in double quotes only, where the migrator escapes for them', async () => {
    for (const name of KNOWN) {
      const template = await readFile(join(ROOT, 'drizzle', `${name}.sql`), 'utf8')
      expect(template.replaceAll(/"(__schema__|__prefix__[a-z_]+)"/g, '')).not.toMatch(/__(schema|prefix)__/)
    }
  })
})

async function tablesOf(schema: string, prefix = ''): Promise<string[]> {
  const rows = await connection.sql<{ relname: string }[]>`
    select relname from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname = ${schema} and relkind = 'r' and starts_with(relname, ${prefix}) order by relname`
  return rows.map((row) => row.relname)
}
