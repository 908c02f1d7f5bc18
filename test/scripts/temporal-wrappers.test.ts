/** scripts/temporal/: each wrapper takes the words of its command, and asks `temporal` for what docs/commands.md says. */
import { execFile, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createFrame } from '../../src/commands/cli/create-frame.ts'
import type { Terminal } from '../../src/commands/cli/terminal.ts'
import { createProgram } from '../../src/commands/cli/program.ts'
import { COMMAND_WORKFLOWS } from '../support/command-workflows.ts'
import { outputOf } from '../support/output.ts'
import { SOON } from '../support/soon.ts'

const WRAPPERS = fileURLToPath(new URL('../../scripts/temporal/', import.meta.url))
const { inputOf } = (await import(pathToFileURL(join(WRAPPERS, 'words.mjs')).href)) as {
  inputOf(shapes: readonly string[], words: readonly string[]): unknown
}
const PAGE = new URL('../../docs/commands.md', import.meta.url)
const WORKFLOWS = COMMAND_WORKFLOWS.filter((entry) => entry.type !== null)

/** Plays `temporal`: keeps what it was given, and answers that the workflow has completed and nothing failed. */
const RESULT = { failed: [], outcome: 'OUTCOME' }
const RECORDER = `#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done >"$RECORDED"
case "$*" in *:retry-sync-item*) outcome=success ;; *) outcome=processed ;; esac
data=$(printf '%s' '${JSON.stringify(RESULT)}' | sed "s/OUTCOME/$outcome/" | base64)
echo '{"status":"COMPLETED","closeEvent":{},"result":{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"'"$data"'"}}'
`

const terminal: Terminal = {
  out: () => {},
  err: () => {},
  isInteractive: false,
  columns: () => 80,
  prompts: {} as never,
  sources: { environment: {}, file: () => '', stdin: async () => '' },
}
const load = async () => expect.unreachable('no host is needed')
const program = createProgram(createFrame({ load, terminal }), terminal)

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wrappers-'))
  await writeFile(join(folder, 'temporal'), RECORDER)
  await chmod(join(folder, 'temporal'), 0o755)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** What the wrapper gives to `temporal`; the words are read by a shell, as a person's are. */
async function recorded(words: string, env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const file = join(folder, `${Math.random()}`)
  const { stdout } = await promisify(execFile)('sh', ['-c', `'${WRAPPERS}'${words} --json`], {
    env: { PATH: process.env.PATH, TEMPORAL_CLI: join(folder, 'temporal'), RECORDED: file, ...env },
  })
  expect(JSON.parse(stdout)).toMatchObject({ failed: [] })
  return (await readFile(file, 'utf8')).split('\0')
}

const optionOf = (given: readonly string[], option: string) => given[given.indexOf(option) + 1]

describe('the words on the page', async () => {
  const rows = [
    ...(await readFile(PAGE, 'utf8')).matchAll(/^\| `(integrations:[\w-]+)`.*\| `(\{.*\})` \| `([^`]+)` \|$/gm),
  ]

  it('are there for each', () => {
    expect(rows.map(([, type]) => type)).toEqual(WORKFLOWS.map(({ type }) => type))
  })

  // How an id is made of its pattern is seen in processes, below, once for each mode.
  it('are the input of each workflow, under the id of the catalogue', async () => {
    for (const [, type = '', input = '', words = ''] of rows) {
      const entry = WORKFLOWS.find((candidate) => candidate.type === type) ?? expect.unreachable(type)
      const [name = '', ...given] = wordsOf(words)
      const { command, id } = await callOf(name)
      expect([`integrations:${command}`, id], words).toEqual([type, entry.id])
      expect(inputOf(await shapesOf(name), given), words).toEqual(JSON.parse(input))
    }
  })

  it.concurrent.each(
    rows
      .filter(([, , , words = '']) => /^(prune|replay-webhook|install|show) ?/.test(words))
      .map(([, type = '', input = '', words = '']) => [words, type, input] as const),
  )('lead to `temporal` with them: %s', { timeout: 60_000 }, async (words, type, input) => {
    const id = (WORKFLOWS.find((entry) => entry.type === type)?.id ?? '').replace(
      /<(\w+)>/,
      (_, field) => JSON.parse(input)[field],
    )
    const given = await recorded(words)
    expect(given.slice(0, 2)).toEqual(['workflow', 'execute'])
    expect(optionOf(given, '--type')).toBe(type)
    expect(optionOf(given, '--task-queue')).toBe('integrations-default')
    expect(optionOf(given, '--workflow-id')).toMatch(new RegExp(`^integrations:${id}(:[0-9a-f]{8})?$`))
    expect(optionOf(given, '--input')).toBe(input)
  })
})

describe('a wrapper', { timeout: 60_000 }, () => {
  it('takes nothing that its command does not, and of the program all but what is for terminals', async () => {
    for (const { command: name, runs } of WORKFLOWS) {
      const command = program.commands.find((candidate) => candidate.name() === name)
      const options = (command?.options ?? []).map(({ long }) => long ?? '')
      const args = command?.registeredArguments ?? []
      const shapes = await shapesOf(name)
      for (const shape of shapes) {
        const word = /^[<[]?([^=:]+)/.exec(shape)?.[1] ?? ''
        expect(word.startsWith('--') ? options : args.map((argument) => argument.name()), name).toContain(word)
      }
      if (runs !== 'program') continue
      const forTerminals = ['--json', '--no-interactive', '--watch']
      const all = [
        ...options.filter((option) => !forTerminals.includes(option)).map((option) => `${option}:`),
        ...args.map((argument) => (argument.required ? `<${argument.name()}:` : `[${argument.name()}:`)),
      ]
      for (const word of all) expect(shapes.join(' '), name).toContain(word)
    }
  })

  it('is about the deployment that the environment names', async () => {
    const given = await recorded('prune', { INTEGRATIONS_PREFIX: `it's "$x"`, INTEGRATIONS_QUEUE: 'syncs' })
    expect(optionOf(given, '--workflow-id')).toBe(`it's "$x":prune`)
    expect(optionOf(given, '--task-queue')).toBe(`it's "$x"-syncs`)
  })

  it.each([["'; rm -rf / # $(touch gone) `id`"], ['a\nb\n'], ['--limit * é\u0007'], ['']])(
    'hands %j on as it is',
    async (word) => {
      const quoted = `'${word.replaceAll("'", `'\\''`)}'`
      const given = await recorded(`list --provider ${quoted} --owner=${quoted}`)
      expect(JSON.parse(optionOf(given, '--input') ?? '')).toEqual({ provider: word, owner: word })
    },
  )

  it('refuses before it asks', async () => {
    const message = '<id> is missing. Allowed: <id> --json'
    const stdout = `${JSON.stringify({ error: { code: 'usage', message } })}\n`
    await expect(recorded('show')).rejects.toMatchObject({ code: 1, stdout })
  })

  it.each([
    ['show x', '<id> is a whole number, "x" was given.'],
    ['show 9007199254740993', '<id> is a whole number, "9007199254740993" was given.'],
    ['show 7 8', '"8" is a word too many. Allowed: <id> --json'],
    ['delete 7 --yes=1', '--yes takes no value.'],
    ['show 7 --json=1', '--json takes no value.'],
    ['show -x', 'Unknown option -x. Allowed: <id> --json'],
    ['list --limit -1', '--limit is a whole number, "-1" was given.'],
    ['list --owner=a --limit=', '--limit is a whole number, "" was given.'],
  ])('refuses %s', async (words, message) => {
    const [name = '', ...given] = words.split(' ')
    const shapes = await shapesOf(name)
    expect(() => inputOf(shapes, given)).toThrow(message)
  })
})

/** As an operator's shell has it. */
async function ran(words: string, env: NodeJS.ProcessEnv) {
  const child = spawn('/bin/sh', ['-c', words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  return outputOf(child)
}

describe("a wrapper in an operator's hands", { timeout: 60_000 }, () => {
  const list = `'${WRAPPERS}'list`
  const path = process.env.PATH

  it.concurrent('shows by --help what it takes, and asks nobody', async () => {
    const shown = await ran(`${list} --limit 3 --help`, { PATH: path, TEMPORAL_CLI: '/not/there' })
    expect(shown).toMatchObject({ code: 0, err: '' })
    expect(shown.out).toMatch(/^list: runs integrations:list on a worker. Allowed: --provider <text> .* --json\n/)
    for (const name of [
      'TEMPORAL_ADDRESS',
      'INTEGRATIONS_PREFIX',
      'INTEGRATIONS_QUEUE',
      'TEMPORAL_CLI',
      'Exit codes',
      '130',
    ])
      expect(shown.out).toContain(name)
  })

  it.concurrent('says in one line what is not installed', async () => {
    const bare = join(folder, 'bare')
    await mkdir(bare)
    for (const name of ['dirname', 'readlink'])
      await symlink((await ran(`command -v ${name}`, { PATH: path })).out.trim(), join(bare, name))
    const noNode = '`node` is not installed, which this script needs: https://nodejs.org.'
    expect(await ran(list, { PATH: bare })).toEqual({ code: 1, out: '', err: `${noNode}\n` })
    const document = { error: { code: 'usage', message: noNode } }
    expect(await ran(`${list} --json`, { PATH: bare })).toEqual({
      code: 1,
      out: `${JSON.stringify(document)}\n`,
      err: '',
    })
    const noTemporal =
      '`temporal` is not installed: https://docs.temporal.io/cli. TEMPORAL_CLI names it where it is not on PATH.'
    await symlink(process.execPath, join(bare, 'node'))
    expect(await ran(list, { PATH: bare })).toEqual({ code: 1, out: '', err: `${noTemporal}\n` })
    await writeFile(join(folder, 'not-a-program'), '')
    const refused = await ran(list, { PATH: path, TEMPORAL_CLI: join(folder, 'not-a-program') })
    expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/not-a-program` may not be run\./) })
  })

  it.concurrent('leaves to `temporal` what it reads itself: no key is on a command line', async () => {
    const reader = join(folder, 'reader')
    await writeFile(reader, '#!/bin/sh\nenv >"$RECORDED"\necho said >&2\n')
    await chmod(reader, 0o755)
    const own = {
      TEMPORAL_ADDRESS: 'cloud:7233',
      TEMPORAL_API_KEY: 'a-key',
      TEMPORAL_NAMESPACE: 'ours',
      TEMPORAL_TLS_CLIENT_CERT_PATH: '/a cert',
    }
    const file = join(folder, 'environment')
    const { code, err } = await ran(list, { PATH: path, TEMPORAL_CLI: reader, RECORDED: file, ...own })
    // What is no document is said as it is.
    expect([code, err]).toEqual([2, expect.stringMatching(/^Temporal was not reached: said Check TEMPORAL_ADDRESS/)])
    const seen = (await readFile(file, 'utf8')).split('\n')
    expect(seen).toEqual(expect.arrayContaining(Object.entries(own).map(([name, value]) => `${name}=${value}`)))
    expect((await recorded('list', own)).join(' ')).not.toMatch(/a-key|cloud:7233|--namespace|--address/)
  })

  it.concurrent('may be called by another name, from elsewhere', async () => {
    const link = join(folder, 'show it')
    await symlink(join(WRAPPERS, 'show'), link)
    const { code, err } = await ran(`'${link}'`, { PATH: path })
    expect([code, err]).toEqual([1, '<id> is missing. Allowed: <id> --json\n'])
  })

  it.concurrent('minds no reader that goes away early', async () => {
    const env = { PATH: path, TEMPORAL_CLI: join(folder, 'temporal'), RECORDED: join(folder, 'early') }
    expect(await ran(`${list} --json | true`, env)).toEqual({ code: 0, out: '', err: '' })
  })

  it.concurrent.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'ends with 130 by %s, and `temporal` with it',
    async (signal) => {
      const sleeper = join(folder, `sleeper-${signal}`)
      await writeFile(sleeper, `#!/bin/sh\necho $$ >"$RECORDED"\nexec sleep 50\n`)
      await chmod(sleeper, 0o755)
      const file = join(folder, signal)
      const env = { PATH: path, TEMPORAL_CLI: sleeper, RECORDED: file, INTEGRATIONS_PREFIX: "it's" }
      const child = spawn(join(WRAPPERS, 'replay-webhook'), ['7'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
      const ended = outputOf(child)
      await vi.waitFor(async () => expect(await readFile(file, 'utf8')).toMatch(/\d\n$/), SOON)
      child.kill(signal)
      expect(await ended).toEqual({
        code: 130,
        out: '',
        err: "Interrupted. If the workflow was started, it goes on; `temporal workflow cancel --workflow-id 'it'\\''s:webhook:7'` ends it.\n",
      })
      const pid = Number(await readFile(file, 'utf8'))
      expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    },
  )
})

describe('a wrapper that is told to end', { timeout: 60_000 }, () => {
  /** Plays `temporal`: notes what it was asked for, and goes on until it is told to end; then it does this. */
  async function playing(name: string, told: string) {
    const file = join(folder, `${name}.asked`)
    const program = join(folder, name)
    await writeFile(program, `#!/bin/sh\ntrap '${told}' TERM\necho "$4" >>"$RECORDED"\nwhile :; do sleep 0.1; done\n`)
    await chmod(program, 0o755)
    const asked = () => readFile(file, 'utf8').catch(() => '')
    const run = (words: readonly string[]) => {
      const [wrapper = '', ...rest] = words
      const env = { PATH: process.env.PATH, TEMPORAL_CLI: program, RECORDED: file }
      return spawn(join(WRAPPERS, wrapper), rest, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    }
    return { asked, run }
  }

  it.concurrent('starts no command after the look whether Postgres is there', async () => {
    const done = `echo "{\\"status\\":\\"COMPLETED\\",\\"closeEvent\\":{},\\"result\\":{\\"metadata\\":{\\"encoding\\":\\"anNvbi9wbGFpbg==\\"},\\"data\\":\\"W10=\\"}}"; exit 0`
    const { asked, run } = await playing('looked-at', done)
    const child = run(['prune'])
    const ended = outputOf(child)
    await vi.waitFor(async () => expect(await asked()).toBe('integrations:list\n'), SOON)
    child.kill('SIGTERM')
    expect(await ended).toEqual({ code: 130, out: '', err: 'Interrupted. Nothing was started.\n' })
    expect(await asked()).toBe('integrations:list\n')
  })

  it.concurrent('a second time does not wait for `temporal`, and ends with its document', async () => {
    const { asked, run } = await playing('deaf', 'echo told >>"$RECORDED"')
    const child = run(['replay-webhook', '7', '--json'])
    const ended = outputOf(child)
    await vi.waitFor(async () => expect(await asked()).toBe('integrations:replay-webhook\n'), SOON)
    child.kill('SIGTERM')
    await vi.waitFor(async () => expect(await asked()).toContain('told'), SOON)
    child.kill('SIGTERM')
    const { code, out, err } = await ended
    expect([code, err]).toEqual([130, ''])
    expect(JSON.parse(out)).toEqual({
      error: { code: 'interrupted', message: expect.stringContaining('cancel --workflow-id integrations:webhook:7`') },
    })
  })
})

/** The call of `execute` in the wrapper's file. */
async function lineOf(command: string): Promise<string> {
  const [, line = ''] = (await readFile(join(WRAPPERS, command), 'utf8')).replaceAll('\\\n', ' ').split(`execute `)
  return line
}

/** The workflow that the wrapper asks for, and the pattern of its id. */
async function callOf(name: string): Promise<{ command: string | undefined; id: string | undefined }> {
  const [, , command, , id] = /^(\w+) +(\S+) +('?)(\S+?)\3 /.exec(await lineOf(name)) ?? []
  return { command, id }
}

/** The words of a line of the page, whose quotes are those of a shell. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/(?:'[^']*'|[^\s'])+/g)].map(([word]) => word.replaceAll("'", ''))
}

/** What the wrapper's file says of its words. */
async function shapesOf(command: string): Promise<string[]> {
  const line = await lineOf(command)
  return [...line.matchAll(/'([^']+:(?:int|text|flag|list|env)[>\]]?)'/g)].map(([, shape = '']) => shape)
}
