/** `npm run bench -- <name> [--json] [--assert] [--quick]`. What is measured and how: docs/performance.md. */
import { cpus, release, totalmem, type } from 'node:os'
import { parseArgs } from 'node:util'
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
const USAGE = `Usage: npm run bench -- <${Object.keys(BENCHES).join('|')}> [--json] [--assert] [--quick]

  --json    a line of JSON at the end
  --assert  exit 1 when a target is missed
  --quick   in less than 50 seconds; its figures are rougher, and some are left out`

const EXIT_MISSED = 1
const EXIT_USAGE = 2

async function main(): Promise<number> {
  const given = readArguments()
  if (given === null) {
    console.error(USAGE)
    return EXIT_USAGE
  }
  const { name, load, json, assert, quick } = given
  await builtFirst()
  const bench = await load()
  // Progress to stderr, so that a pipe gets the result only.
  const outcome = await bench({ quick, say: (line) => console.error(line) })
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
      },
    })
    const [name = '', ...more] = positionals
    const load = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined
    return load === undefined || more.length > 0 ? null : { name, load, ...values }
  } catch {
    return null
  }
}

function machine(): string {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return `${cpus().length} x ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, ${memory}, ${type()} ${release()}, Node ${process.versions.node}`
}

process.exitCode = await main()
