/**
 * Every command in the `sh` blocks of README and docs: a command of ours is there, with its options and arguments; a script, a file,
 * a project of the tests, a workflow, a signal, a query are there. Those of docs/tutorials are run as well
 * (test/tutorials/tutorials.long.test.ts), those of the README too (test/deploy/readme-nodes.long.test.ts).
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { createFrame } from '../../src/commands/cli/create-frame.ts'
import { createProgram } from '../../src/commands/cli/program.ts'
import type { Terminal } from '../../src/commands/cli/terminal.ts'
import { processSources } from '../../src/commands/cli/terminal.ts'
import { QUERY, SIGNAL } from '../../src/workflows/ids.ts'
import * as workflows from '../../src/workflows/index.ts'
import { pagesOf } from './docs-code.ts'
import type { PageCommand } from './docs-commands.ts'
import { commandsIn, commandsOf } from './docs-commands.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Programs of others. What they are given is the page's own. */
const FOREIGN = new Set([
  ...[
    '.',
    'cat',
    'cd',
    'chmod',
    'chown',
    'cp',
    'curl',
    'echo',
    'export',
    'grep',
    'head',
    'kill',
    'mkdir',
    'openssl',
    'pass',
    'test',
  ],
  ...[
    'printf',
    'sed',
    'source',
    'umask',
    'jobs',
    'createdb',
    'docker',
    'kubectl',
    'git',
    'go',
    'pg_dump',
    'pg_restore',
    'psql',
    'python3',
  ],
  ...['install', 'rm', 'runuser', 'systemctl', 'tsc', 'useradd'],
  // Of a function that the block makes.
  ...['running', '.venv/bin/pip', '.venv/bin/python'],
])
const NPM = new Set(['ci', 'init', 'install', 'pack', 'pkg', 'test', 'start'])
const TEMPORAL = new Set(['execute', 'signal', 'query', 'list', 'count', 'show', 'signal-with-start'])

const terminal: Terminal = {
  out() {},
  err() {},
  isInteractive: false,
  columns: () => 80,
  prompts: {} as Terminal['prompts'],
  sources: processSources(async () => ''),
}

/** What is wrong with a command of ours, by the program's own parser. Nothing is run. */
async function faultOfOurs(words: readonly string[]): Promise<string | null> {
  const load = () => Promise.reject(new Error('this host is not to be loaded'))
  const frame = createFrame({ terminal, load, onExitCode() {} })
  const program = createProgram(frame, terminal)
  for (const command of program.commands) command.action(() => {})
  if (words.length === 1 && words[0] === '--version') return null
  return program.parseAsync([...words], { from: 'user' }).then(
    () => null,
    (error: Error) => error.message,
  )
}

const isThere = (path: string): string | null =>
  existsSync(ROOT + path.replace(/^node_modules\/durable-integrations\/dist\/(.*)\.js$/, 'src/$1.ts'))
    ? null
    : `there is no ${path}`

function optionOf(words: readonly string[], name: string): string | undefined {
  const place = words.indexOf(name)
  return place < 0 ? undefined : words[place + 1]
}

async function faultOf({ words }: { readonly words: readonly string[] }): Promise<string | null> {
  const [program = '', ...rest] =
    words[0] === 'sudo' || words[0] === 'exec' || words[0] === 'npx' ? words.slice(1) : words
  if (program === 'integrations') return faultOfOurs(rest)
  if (program === 'run') {
    const [file = '', ...more] = rest
    if (file === '-e') return null
    return file === 'src/bin/integrations.ts' ? faultOfOurs(more) : isThere(file)
  }
  if (program === 'npm') {
    const [verb = '', script = '', dashes, ...more] = rest
    if (verb !== 'run') return NPM.has(verb) || (packageJson.scripts as object)[verb as never] ? null : `npm ${verb}?`
    if (!Object.hasOwn(packageJson.scripts, script)) return `package.json has no script ${script}`
    return script === 'cli' && dashes === '--' ? faultOfOurs(more) : null
  }
  if (program === 'vitest')
    return (
      rest
        .slice(1)
        .map((word) => (word.startsWith('test/') ? isThere(word) : null))
        .find(Boolean) ?? null
    )
  if (program === 'node' || program === 'tsx') {
    const file = rest.find((word) => /\.(ts|js|mjs)$/.test(word))
    // A file of the reader's own stands in a block of the page.
    return file === undefined || !file.includes('/') ? null : isThere(file)
  }
  if (program === 'temporal') {
    const [group, verb = ''] = rest
    if (group !== 'workflow' || !TEMPORAL.has(verb)) return `temporal ${group} ${verb}?`
    const type = optionOf(rest, '--type')
    if (verb === 'query') return Object.hasOwn(QUERY, type ?? '') ? null : `no workflow has the query ${type}`
    if (type !== undefined && !Object.hasOwn(workflows, type)) return `there is no workflow ${type}`
    const signal = optionOf(rest, verb === 'signal' ? '--name' : '--signal-name')
    return signal === undefined || Object.hasOwn(SIGNAL, signal) ? null : `no workflow has the signal ${signal}`
  }
  if (program.startsWith('scripts/')) return isThere(program)
  return FOREIGN.has(program) ? null : `${program} is not known`
}

describe("the pages' commands", () => {
  const commands: PageCommand[] = pagesOf(ROOT).flatMap((page) => commandsOf(ROOT, page))

  it('are there, with their options', async () => {
    const faults: string[] = []
    for (const command of commands) {
      const fault = await faultOf(command)
      if (fault !== null) faults.push(`${command.page}:${command.line} ${command.words.join(' ')}: ${fault}`)
    }
    expect(commands.length).toBeGreaterThan(300)
    expect(faults).toEqual([])
  })

  it.each([
    ['integrations lst', "unknown command 'lst'"],
    ['npx integrations sync --integratoin 7', "unknown option '--integratoin'"],
    ['npm run cli -- show', "missing required argument 'id'"],
    ['npm run chek', 'package.json has no script chek'],
    ['temporal workflow execute --type integrations:lst --workflow-id a', 'there is no workflow integrations:lst'],
    ['temporal workflow signal --workflow-id a --name paus', 'no workflow has the signal paus'],
    ['node node_modules/durable-integrations/dist/bin/wrker.js', 'there is no'],
    ['npx vitest run test/gone.test.ts', 'there is no test/gone.test.ts'],
    ['frobnicate', 'frobnicate is not known'],
  ])('are looked at: %s', async (line, fault) => {
    const [command] = commandsIn(line)
    expect(await faultOf(command ?? { words: [] })).toContain(fault)
  })

  it('are told apart as a shell does it', () => {
    const script = `A=1 cd x && b "c d" 'e;f' | g -- "h\\"" > out.log 2>&1 &
i $(j k)   # l
m \\
  n <<'END'
o
END
(p; q)`
    const words = commandsIn(script).map((command) => command.words)
    expect(words).toEqual([
      ['cd', 'x'],
      ['b', 'c d', 'e;f'],
      ['g', '--', 'h"'],
      ['j', 'k'],
      ['i', '$(j k)'],
      ['m', 'n'],
      ['p'],
      ['q'],
    ])
  })
})
