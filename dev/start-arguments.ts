/** What `npm start` and `npm run demo` take. */
import { parseArgs } from 'node:util'

export const USAGE = `Usage: npm start -- [demo] [--data <folder>] [--steady]

Starts Postgres, Temporal, a sandbox provider, the API and a worker on this machine. Ctrl-C stops all of them.

  demo             sends 329 webhooks and runs two syncs, checks the result and ends: npm run demo
  --data <folder>  where Postgres and Temporal keep their data; default .data, of the demo .data/demo
  --steady         the sandbox provider never fails; else it fails some calls now and then, for the dashboard to show
  --help           this text`

export type StartArguments =
  | {
      readonly kind: 'start'
      readonly isDemo: boolean
      readonly folder: string | undefined
      readonly isSteady: boolean
    }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string }

/** @param env of npm: an option before its `--` is npm's own, and reaches us only there */
export function readStartArguments(words: readonly string[], env: NodeJS.ProcessEnv = {}): StartArguments {
  const taken = ['data', 'steady'].find((name) => env[`npm_config_${name}`] !== undefined)
  if (taken !== undefined)
    return { kind: 'refused', reason: `npm took '--${taken}' for itself: write npm start -- --${taken}. ${ALLOWED}` }
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(words)
  } catch (error) {
    if (!isParseArgsError(error)) throw error
    // Node adds a second sentence about positional arguments, which does not help here.
    return { kind: 'refused', reason: `${error.message.split(/[.\n] ?/, 1)[0]}. ${ALLOWED}` }
  }
  const { values, positionals } = parsed
  if (values.help) return { kind: 'help' }
  const unknown = positionals.find((word, at) => word !== 'demo' || at > 0)
  if (unknown !== undefined) return { kind: 'refused', reason: `Unexpected word '${unknown}'. ${ALLOWED}` }
  if (values.data === '') return { kind: 'refused', reason: `Option '--data' needs a folder. ${ALLOWED}` }
  return { kind: 'start', isDemo: positionals[0] === 'demo', folder: values.data, isSteady: values.steady }
}

const ALLOWED = 'Allowed: demo, --data <folder>, --steady, --help.'

const parse = (words: readonly string[]) =>
  parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      data: { type: 'string' },
      steady: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })

function isParseArgsError(error: unknown): error is Error {
  return error instanceof Error && String((error as NodeJS.ErrnoException).code).startsWith('ERR_PARSE_ARGS_')
}
