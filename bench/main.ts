/** `npm run bench -- <name>` and `npm run bench -- all`. What is measured and how: docs/performance.md. */
import { cpus, release, totalmem, type } from 'node:os'
import { parseArgs } from 'node:util'
import { benchAll, benchGrowth } from './all/main.ts'
import { builtFirst } from './build.ts'
import type { Bench } from './frame.ts'
import { jsonLine, table } from './frame.ts'

/** Loaded once the arguments are known to be right, and what they measure is built. */
const BENCHES: Readonly<Record<string, () => Promise<Bench>>> = {
  dashboard: async () => (await import('./dashboard/bench.ts')).benchDashboard,
  github: async () => (await import('./github/bench.ts')).benchGitHub,
  operator: async () => (await import('./operator/bench.ts')).benchOperator,
  redaction: async () => (await import('./redaction/bench.ts')).benchRedaction,
  request: async () => (await import('./request/bench.ts')).benchRequest,
  streams: async () => (await import('./streams/bench.ts')).benchStreams,
  sync: async () => (await import('./sync/bench.ts')).benchSync,
  tenants: async () => (await import('./tenants/bench.ts')).benchTenants,
  'webhook-order': async () => (await import('./webhooks/bench.ts')).benchWebhookOrder,
  webhooks: async () => (await import('./webhooks/bench.ts')).benchWebhooks,
}
/** Points of the growth curves: `growth` runs one for each size. */
const CURVES: typeof BENCHES = {
  'growth-rows': async () => (await import('./growth/rows.ts')).benchRows,
  'growth-items': async () => (await import('./growth/items.ts')).benchItems,
  'growth-integrations': async () => (await import('./growth/integrations.ts')).benchIntegrations,
}
const ALL = 'all'
const GROWTH = 'growth'
const NAMES = [...Object.keys(BENCHES), ...Object.keys(CURVES), ALL, GROWTH]
const USAGE = `Usage: npm run bench -- <${NAMES.join('|')}> [--json] [--assert] [--quick] [--rounds N]

  --json      a line of JSON at the end; all and growth write files
  --assert    exit 1 when a target is missed
  --quick     in less than 50 seconds; its figures are rougher, and some are left out
  --rounds N  rounds of each contender; with all, of each bench (default 5)
  --size N    of a growth curve's point: rows, items or integrations
  --growth    with all: the growth curves, too
  --fresh     with all and growth: drop what an unfinished run has measured`

const EXIT_MISSED = 1
const EXIT_USAGE = 2

async function main(): Promise<number> {
  const given = readArguments()
  if (given === null) {
    console.error(USAGE)
    return EXIT_USAGE
  }
  const { name, load, json, assert, ...options } = given
  // A turn of `all` ends with it.
  process.on('disconnect', () => process.exit(EXIT_MISSED))
  process.channel?.unref()
  if (process.env.BENCH_IS_BUILT === undefined) await builtFirst()
  if (name === ALL) return (await benchAll(Object.keys(BENCHES), options, machine())) || !assert ? 0 : EXIT_MISSED
  if (name === GROWTH) return benchGrowth(options, machine()).then(() => 0)
  const bench = await (load as NonNullable<typeof load>)()
  // Progress to stderr, so that a pipe gets the result only.
  const outcome = await bench({ ...options, say: (line) => console.error(line) })
  console.log(`${machine()}\n\n${table(outcome)}`)
  if (json) console.log(jsonLine(name, machine(), outcome))
  return assert && outcome.comparisons.some(({ isMet }) => !isMet) ? EXIT_MISSED : 0
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        assert: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        growth: { type: 'boolean', default: false },
        fresh: { type: 'boolean', default: false },
        rounds: { type: 'string' },
        size: { type: 'string' },
      },
    })
    const [name = '', ...more] = positionals
    if (!NAMES.includes(name) || more.length > 0) return null
    const [rounds, size] = [values.rounds, values.size].map((text) => (text === undefined ? undefined : Number(text)))
    // Two have no median that a single bad round can't move.
    if (rounds !== undefined && !(Number.isInteger(rounds) && (rounds === 1 || rounds >= 3))) return null
    if (size !== undefined && !(Number.isInteger(size) && size >= 1)) return null
    const load = { ...BENCHES, ...CURVES }[name]
    return { ...values, name, load, rounds, size }
  } catch {
    return null
  }
}

function machine(): string {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return `${cpus().length} x ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, ${memory}, ${type()} ${release()}, Node ${process.versions.node}`
}

process.exitCode = await main()
