/**
 * Mutates the functions of `drizzle/functions/`: each mutant is put into the template that test databases are cloned from, and the tests
 * of its function run until one fails.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import type { Vitest } from 'vitest/node'
import { createVitest } from 'vitest/node'
import { PREFIX_TOKEN, SCHEMA_TOKEN } from '../../src/db/schema/columns.ts'
import { sharePostgres } from '../../test/support/postgres-setup.ts'
import type { FileResult, Survivor } from './results.ts'
import { hashOf, root } from './results.ts'
import { sqlMutantsOf } from './sql-mutants.ts'
import { testsOfFunction } from './sql-tests.ts'

type Verdict = 'killed' | 'survived' | 'invalid'

/** A mutant that never ends: its sessions are cut, which fails the test. */
const MUTANT_SECONDS = 90

/** A server and a test runner that stay for all mutants: to start them costs more than most mutants. */
export class SqlBench {
  readonly #passing = new Set<string>()

  private constructor(
    readonly admin: Sql,
    readonly url: string,
    private readonly vitest: Vitest,
    private readonly release: () => Promise<void>,
  ) {}

  static async open(tests: readonly string[]): Promise<SqlBench> {
    const { url, release } = await sharePostgres()
    process.env.MUTATION_TEST_FILES = JSON.stringify(tests)
    const vitest = await createVitest('test', {
      config: 'scripts/mutation/vitest.config.ts',
      root,
      watch: false,
      pool: 'forks',
      bail: 1,
      reporters: [{}],
      onConsoleLog: () => false,
    })
    vitest.provide('postgresUrl', url)
    return new SqlBench(postgres(url, { max: 1, onnotice: () => {} }), url, vitest, release)
  }

  async close(): Promise<void> {
    await this.vitest.close()
    await this.admin.end()
    await this.release()
  }

  /** Without a mutant: a test that fails anyway would kill each. Asked once. */
  async assertPasses(test: string): Promise<void> {
    if (this.#passing.has(test)) return
    const failure = await this.failureIn(test)
    if (failure !== null) throw new Error(`${test} fails without a mutant: ${failure}`)
    this.#passing.add(test)
  }

  /** The first failure of a file, or null. */
  async failureIn(test: string): Promise<string | null> {
    this.vitest.state.filesMap.clear()
    this.vitest.state.errorsSet.clear()
    const started = Date.now()
    const cutting = setInterval(() => {
      if (Date.now() - started > MUTANT_SECONDS * 1000) void this.cutSessions()
    }, 5_000)
    try {
      await this.vitest.start([test])
    } finally {
      clearInterval(cutting)
      // Vitest sets it when a test fails, and here one should.
      process.exitCode = undefined
    }
    const files = this.vitest.state.getTestModules()
    const failed = files.find((file) => !file.ok())
    const errors = [...this.vitest.state.errorsSet, ...(failed?.errors() ?? [])].map(String)
    if (failed === undefined && files.length === 1 && errors.length === 0) return null
    const tests = failed === undefined ? [] : [...failed.children.allTests('failed')]
    return (
      [...tests.map((each) => `${each.fullName}: ${each.result().errors?.[0]?.message}`), ...errors].join('\n') ||
      'no test ran'
    )
  }

  private async cutSessions(): Promise<void> {
    await this.admin`select pg_terminate_backend(pid) from pg_stat_activity where datname like 'test\\_%'`
  }

  /** Into the template that the next test databases are cloned from. @returns whether Postgres takes it */
  async apply(text: string): Promise<boolean> {
    const [template, other] = await this.admin`
      select datname from pg_database where datname like 'template\\_integration\\_%' and datname not like '%unfinished'`
    if (template === undefined) throw new Error('no template: no test has asked for a database')
    // The tests use the new one: a mutant in the old one would survive them all.
    if (other !== undefined) throw new Error('two templates: drizzle/ has changed since the run began; begin it again')
    const url = new URL(this.url)
    url.pathname = `/${template.datname}`
    return putFunction(url.href, text)
  }
}

/** Puts a function of the tables' usual prefix into a database. @returns false: Postgres refuses its text */
export async function putFunction(url: string, text: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    await sql.unsafe(text.replaceAll(PREFIX_TOKEN, 'integration').replaceAll(SCHEMA_TOKEN, 'public'))
    return true
  } catch (error) {
    if (error instanceof postgres.PostgresError) return false
    throw error
  } finally {
    await sql.end()
  }
}

/** @param minutes after which the file's other mutants are left for the next run */
export async function mutateFunction(file: string, bench: SqlBench, minutes: number): Promise<FileResult> {
  const tests = testsOfFunction(file)
  const hash = hashOf([file, ...tests])
  const original = readFileSync(root + file, 'utf8')
  const verdicts = new Verdicts(file, tests)
  for (const test of tests) await bench.assertPasses(test)
  const endsAt = Date.now() + minutes * 60_000
  const survivors: Survivor[] = []
  // What has killed the most is asked first.
  const kills = new Map<string, number>()
  const counted = { killed: 0, timedOut: 0, invalid: 0, notRun: 0 }
  try {
    // In an order that has nothing to do with the text: what the time reaches is a fair sample.
    const mutants = sqlMutantsOf(original).sort((a, b) => keyOf(a.text).localeCompare(keyOf(b.text), 'en'))
    for (const { text, ...mutant } of mutants) {
      const known = verdicts.of(text)
      if (known === undefined && Date.now() > endsAt) {
        counted.notRun += 1
        continue
      }
      const verdict = known ?? (await judge(text, tests, bench, kills))
      verdicts.keep(text, verdict)
      if (verdict === 'survived') survivors.push(mutant)
      else counted[verdict] += 1
    }
  } finally {
    await bench.apply(original)
  }
  survivors.sort((a, b) => a.line - b.line)
  return { hash, date: new Date().toISOString().slice(0, 10), ...counted, survivors }
}

async function judge(
  text: string,
  tests: readonly string[],
  bench: SqlBench,
  kills: Map<string, number>,
): Promise<Verdict> {
  if (!(await bench.apply(text))) return 'invalid'
  const killsOf = (test: string): number => kills.get(test) ?? 0
  for (const test of tests.toSorted((a, b) => killsOf(b) - killsOf(a))) {
    if ((await bench.failureIn(test)) === null) continue
    kills.set(test, killsOf(test) + 1)
    return 'killed'
  }
  return 'survived'
}

/**
 * What is known of the mutants of one text: a run that was stopped goes on from there. What survived is run again when its tests have
 * changed; what was killed is not.
 */
class Verdicts {
  readonly #path: string
  readonly #known: Record<string, Verdict> = {}

  constructor(
    readonly file: string,
    readonly tests: readonly string[],
  ) {
    this.#path = `${root}.data/mutation/${file.replaceAll('/', '-')}.json`
    if (!existsSync(this.#path)) return
    const kept = JSON.parse(readFileSync(this.#path, 'utf8')) as {
      text: string
      tests: string
      known: Record<string, Verdict>
    }
    if (kept.text !== hashOf([file])) return
    for (const [key, verdict] of Object.entries(kept.known))
      if (verdict !== 'survived' || kept.tests === hashOf(tests)) this.#known[key] = verdict
  }

  of(text: string): Verdict | undefined {
    return this.#known[keyOf(text)]
  }

  keep(text: string, verdict: Verdict): void {
    this.#known[keyOf(text)] = verdict
    mkdirSync(dirname(this.#path), { recursive: true })
    const kept = { text: hashOf([this.file]), tests: hashOf(this.tests), known: this.#known }
    writeFileSync(this.#path, JSON.stringify(kept))
  }
}

const keyOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)
