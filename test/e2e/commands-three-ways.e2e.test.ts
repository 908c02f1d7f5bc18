/**
 * Each command as a subcommand of the command line, as a workflow, and by its wrapper: the same result, the same refusals, the same
 * exit codes. The page about it: docs/commands.md, "Three ways".
 *
 * Wrappers are processes, as a person has them. The command line and Temporal's own are processes for some commands; for the others
 * the program runs in this process, and Temporal's client starts the workflow: a process takes longer than its command. How a wrapper
 * reads its words and what it says of an outcome is tested for each command in test/scripts/temporal-*.test.ts.
 *
 * What mostly waits (the attempts of a worker without its database) begins first, and is looked at last.
 */
import type { ChildProcess } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { COMMAND_WORKFLOWS } from '../support/command-workflows.ts'
import type { Output } from '../support/output.ts'
import { SOON } from '../support/soon.ts'
import type { Ended, Scene } from './commands-three-ways-scene.ts'
import { openScene, WRAPPERS } from './commands-three-ways-scene.ts'
import type { Row } from './commands-three-ways-table.ts'
import { LATER, NEEDS_TEMPORAL, TABLE } from './commands-three-ways-table.ts'

const WORKFLOWS = COMMAND_WORKFLOWS.filter((entry) => entry.type !== null)
/** The doors are the same for all commands (test/commands/three-doors.test.ts): a new one needs no row here. */
const COMMANDS = [...new Set(TABLE.map(({ command }) => command))]
/** Of these the command line and `temporal workflow execute` are processes, too: a program, a workflow of its own, an exit code of 1. */
const BY_PROCESSES: ReadonlySet<string> = new Set(['install', 'replay-webhook', 'health'])
/** A program, a workflow of its own, and one that looks before it joins. */
const BY_WRAPPER = ['show', 'replay-webhook', 'prune']
/** Nobody listens there: it is reserved, and not for us. */
const NOBODY = '127.0.0.1:1'

let scene: Scene
/** What each command and its workflow ended with where the worker has lost its database. */
let lost: ReadonlyMap<string, Promise<Ways>>
let lostWrappers: ReadonlyMap<string, Promise<Output>>

beforeAll(async () => {
  scene = await openScene()
  let before: Promise<unknown> = Promise.resolve()
  lost = new Map(
    COMMANDS.map((command) => {
      const { cli, ways } = withoutPostgres(command, before)
      before = cli.catch(() => {})
      return [command, ways]
    }),
  )
  // Each is awaited by the test of its command.
  for (const ways of lost.values()) ways.catch(() => {})
  lostWrappers = new Map(
    [...BY_WRAPPER, 'doctor'].map((command) => {
      const row = TABLE.find((candidate) => candidate.command === command) ?? expect.unreachable(command)
      return [command, scene.wrapper(command, [...wordsOf(row, 2), '--json'], scene.withoutDatabase)]
    }),
  )
})
afterAll(() => scene?.close())

const words = (text: string) => expect.stringContaining(text)
const nameOf = ({ command, variant }: Row): string => (variant === undefined ? command : `${command} ${variant}`)

describe('the table', () => {
  it('has commands that are workflows, and each workflow of a command has a wrapper', () => {
    const all = WORKFLOWS.map(({ command }) => command)
    expect(all).toEqual(expect.arrayContaining(COMMANDS))
    expect(readdirSync(WRAPPERS).filter((file) => !file.includes('.'))).toEqual(all.sort())
  })
})

describe('the same result', () => {
  it.each(TABLE.filter(({ isAlone }) => isAlone).map((row) => [nameOf(row), row] as const))('%s', (_, row) => same(row))
})

describe.concurrent('workflows that run already', () => {
  const running = ['workflow', 'start', '--type', 'nobody', '--task-queue', 'nobody', '--workflow-id']

  it('are joined where it is the same', async () => {
    const id = `${scene.prefix}:prune`
    expect((await scene.temporal([...running, id])).code).toBe(0)
    const ended = await scene.wrapper('prune', ['--json'], {}, (wrapper) => {
      // The run goes on until the wrapper says that it waits for that one.
      wrapper.stderr?.on('data', (text) => {
        if (String(text).includes(`Still waiting for ${id}:`))
          void scene.temporal(['workflow', 'terminate', '--workflow-id', id, '--reason', 'seen'])
      })
    })
    const message = `The workflow ${id} was terminated: seen.`
    expect([ended.code, documentOf(ended, 'prune')]).toEqual([1, { error: { code: 'unexpected_error', message } }])
  })

  it('are refused where one work must not be done twice', async () => {
    const id = `${scene.prefix}:webhook:999999`
    expect((await scene.temporal([...running, id])).code).toBe(0)
    const twice = await scene.wrapper('replay-webhook', ['999999', '--json'])
    expect([twice.code, documentOf(twice)]).toMatchObject([
      1,
      { error: { code: 'already_running', message: words(id) } },
    ])
  })
})

describe.concurrent('the same result beside others', () => {
  it.each(TABLE.filter(({ isAlone }) => !isAlone).map((row) => [nameOf(row), row] as const))('%s', (_, row) =>
    same(row),
  )
})

describe.concurrent('bad input ends with 1 and says which', () => {
  it.each(COMMANDS)('%s', async (command) => {
    const [cli, workflow] = await Promise.all([
      scene.inProcess([command, '--nope', '--json']),
      scene.workflow(command, `bad:${command}`, { nope: 7 }),
    ])
    // Commander looks for a required option first.
    const message = expect.stringMatching(/nope|required option/)
    expect([cli.code, documentOf(cli)]).toMatchObject([1, { error: { code: 'usage', message } }])
    expect(workflow).toMatchObject({
      code: 1,
      failure: { type: expect.stringMatching(/^(usage|invalid_argument)$/), message: words('nope') },
    })
  })

  it('in each of the three processes', async () => {
    const [cli, typed, wrapper] = await Promise.all([
      scene.cli(['show', '--nope', '--json']),
      scene.typed('show', 'bad:typed', { nope: 7 }),
      scene.wrapper('show', ['--nope', '--json']),
    ])
    expect([cli.code, documentOf(cli)]).toMatchObject([1, { error: { code: 'usage', message: words('nope') } }])
    expect(typed).toMatchObject({ code: 1, failure: { type: 'usage', message: words('nope') } })
    const usage = { error: { code: 'usage', message: words('--nope') } }
    expect([wrapper.code, documentOf(wrapper)]).toMatchObject([1, usage])
  })

  it('in words, where no --json is given', async () => {
    const ended = await scene.wrapper('show', ['--nope'])
    expect(ended).toEqual({ code: 1, out: '', err: 'Unknown option --nope. Allowed: <id> --json\n' })
  })

  it('where only the command can tell', async () => {
    const refused = await scene.wrapper('circuit', ['1', 'status', '--until', LATER, '--json'])
    const typed = await scene.inProcess(['circuit', '1', 'status', '--until', LATER, '--json'])
    expect([refused.code, documentOf(refused)]).toEqual([1, documentOf(typed)])
    expect(typed.code).toBe(1)
    const gone = await Promise.all(
      ['skip-sync-item', 'retry-sync-item', 'replay-webhook'].map(async (command) => {
        const ended = await scene.wrapper(command, ['77', '--json'])
        return [ended.code, documentOf(ended)]
      }),
    )
    const item = expect.stringMatching(
      /There is no sync item with id 77\..*`integrations list-failed-items` shows the ids\.$/,
    )
    const webhook = 'There is no webhook with id 77. `integrations list-webhooks` shows the ids.'
    expect(gone).toEqual([
      [1, { error: { code: 'sync_item_not_found', message: item } }],
      [1, { error: { code: 'sync_item_not_found', message: item } }],
      [1, { error: { code: 'webhook_not_found', message: webhook } }],
    ])
  })

  it('a credential that is no reference, and does not repeat it', async () => {
    const { code, out, err } = await scene.wrapper('install', ['demo', '--credential', 'token=hunter2'])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain('--credential is <key>=env:<NAME>')
    expect(err).not.toContain('hunter2')
  })
})

describe.concurrent('hostile words', () => {
  it.each([`'; rm -rf / # $(touch gone) \`touch gone\``, 'a\nb \\n "quoted" \'too\' * ü ☃', '--', '-'])(
    '%j arrive as they are',
    async (word) => {
      const { code, out } = await scene.wrapper('find-orphans', ['--json', '--', word])
      expect([code, JSON.parse(out)]).toEqual([
        1,
        { error: { code: expect.any(String), message: expect.stringContaining(`${JSON.stringify(word)} was given`) } },
      ])
      const listed = await scene.wrapper('list-webhooks', [`--event=${word}`, '--json'])
      expect([listed.code, documentOf(listed)]).toEqual([0, []])
    },
  )
})

describe.concurrent('without Temporal', () => {
  const unreachable = { error: { code: 'backend_unreachable', message: words(NOBODY) } }

  it.each(COMMANDS)('%s ends with 2, where it needs it', async (command) => {
    const row = TABLE.find((candidate) => candidate.command === command) ?? expect.unreachable(command)
    const subject = (await row.subject?.(scene)) ?? 'none'
    const cli = await scene.inProcess(cliWords(row, subject), { temporal: { address: NOBODY } })
    if (NEEDS_TEMPORAL.has(command)) expect([cli.code, documentOf(cli)]).toEqual([2, unreachable])
    else {
      // The doctor's finding is its result.
      expect([command, cli.code]).toEqual([command, command === 'doctor' ? 1 : 0])
      // A run of a sync has an `error` of its own, which is null.
      expect(documentOf(cli)).not.toHaveProperty('error.code')
    }
  })

  it.each(BY_WRAPPER)('the wrapper of %s ends with 2; temporal itself knows 1 only', async (command) => {
    const row = TABLE.find((candidate) => candidate.command === command) ?? expect.unreachable(command)
    const env = { TEMPORAL_ADDRESS: NOBODY }
    const [typed, wrapper] = await Promise.all([
      scene.typed(command, `nowhere:${command}`, row.input(1), env),
      scene.wrapper(command, [...wordsOf(row, 1), '--json'], env),
    ])
    expect([wrapper.code, documentOf(wrapper)]).toEqual([2, unreachable])
    expect(typed).toMatchObject({ code: 1, said: words('connection refused') })
  })

  it('a namespace that is not there is 2, a binary that is not there is 1', async () => {
    const nowhere = await scene.wrapper('prune', ['--json'], { TEMPORAL_NAMESPACE: 'nowhere' })
    expect([nowhere.code, documentOf(nowhere)]).toMatchObject([
      2,
      { error: { message: words('nowhere is not found') } },
    ])
    const missing = await scene.wrapper('prune', ['--json'], { TEMPORAL_CLI: '/not/there' })
    expect([missing.code, documentOf(missing)]).toMatchObject([
      1,
      { error: { message: words('`/not/there` is not installed') } },
    ])
  })
})

describe.concurrent('a wrapper that is interrupted', () => {
  it('ends with 130 and says which workflow goes on', async () => {
    const id = `${scene.prefix}:webhook:888888`
    // Nobody polls that queue.
    const env = { INTEGRATIONS_QUEUE: 'nobody' }
    let ended: Promise<Output> | undefined
    const started = new Promise<ChildProcess>((resolve) => {
      ended = scene.wrapper('replay-webhook', ['888888', '--json'], env, resolve)
    })
    const statusOf = async () => {
      const { out } = await scene.temporal(['workflow', 'describe', '--workflow-id', id, '--output', 'json'])
      return /"status": *"(\w+)"/.exec(out)?.[1]
    }
    const wrapper = await started
    await vi.waitFor(async () => expect(await statusOf()).toMatch(/RUNNING/), SOON)
    wrapper.kill('SIGINT')
    const { code, out } = (await ended) ?? expect.unreachable()
    const message = `Interrupted. If the workflow was started, it goes on; \`temporal workflow cancel --workflow-id ${id}\` ends it.`
    expect([code, JSON.parse(out)]).toEqual([130, { error: { code: 'interrupted', message } }])
    expect(await statusOf()).toMatch(/RUNNING/)
  })
})

describe.concurrent('without Postgres', () => {
  const message = words('Postgres was not reached at 127.0.0.1')
  const needing = COMMANDS.filter((command) => command !== 'config' && command !== 'doctor')

  it.each(needing)('%s ends with 2; the workflow fails and says so', async (command) => {
    const { cli, workflow } = (await lost.get(command)) ?? expect.unreachable(command)
    expect([cli.code, documentOf(cli)]).toEqual([2, { error: { code: 'backend_unreachable', message } }])
    expect(workflow).toMatchObject({ code: 1, failure: { type: 'backend_unreachable', message } })
  })

  it.each(BY_WRAPPER)('the wrapper of %s ends with 2', async (command) => {
    const wrapper = (await lostWrappers.get(command)) ?? expect.unreachable(command)
    expect([wrapper.code, documentOf(wrapper, command)]).toEqual([
      2,
      { error: { code: 'backend_unreachable', message } },
    ])
  })

  it('config does not need it', async () => {
    const { cli, workflow } = (await lost.get('config')) ?? expect.unreachable()
    expect([cli.code, workflow.code]).toEqual([0, 0])
  })

  it('doctor has found it', async () => {
    const wrapper = (await lostWrappers.get('doctor')) ?? expect.unreachable()
    const { cli, workflow } = (await lost.get('doctor')) ?? expect.unreachable()
    const away = expect.objectContaining({ check: 'database.reachable', status: 'fault' })
    const found = { ok: false, findings: expect.arrayContaining([away]) }
    expect([cli.code, documentOf(cli)]).toMatchObject([1, found])
    expect(workflow).toMatchObject({ code: 1, result: found })
    expect([wrapper.code, JSON.parse(wrapper.out)]).toMatchObject([1, found])
  })
})

interface Ways {
  readonly cli: Output
  readonly workflow: Ended
}

/** @param before the command line of the one before has ended: as quickly as the machine starts them, and not all at one moment */
function withoutPostgres(command: string, before: Promise<unknown>): { cli: Promise<Output>; ways: Promise<Ways> } {
  const row = TABLE.find((candidate) => candidate.command === command) ?? expect.unreachable(command)
  const database = `postgres://app:open-sesame@${NOBODY}/app`
  const cli = before.then(() => scene.inProcess(cliWords(row, 1), { database }))
  const all = before.then(() =>
    Promise.all([cli, scene.workflow(command, command, row.input(1), scene.withoutDatabase)]),
  )
  return { cli, ways: all.then(([cli, workflow]) => ({ cli, workflow })) }
}

async function same(row: Row): Promise<void> {
  const { command, expected, exitCode = 0 } = row
  const { runs } = WORKFLOWS.find((entry) => entry.command === command) ?? expect.unreachable(command)
  const facts = row.facts ?? ((document: unknown) => document)
  const resultFacts = row.resultFacts ?? (runs === 'program' ? facts : (result: unknown) => result)
  const subjectOf = async () => (await row.subject?.(scene)) ?? 'none'

  // Each way's comes just before it: what the one before has left behind is none of its.
  const first = await subjectOf()
  const isByProcesses = BY_PROCESSES.has(command)
  const cli = await (isByProcesses ? scene.cli : scene.inProcess)(cliWords(row, first))
  const second = await subjectOf()
  const execute = isByProcesses ? scene.typed : scene.workflow
  const workflow = await execute(command, `${command}:${second}:${row.variant}`, row.input(second))
  const third = await subjectOf()
  const wrapper = await scene.wrapper(command, [...wordsOf(row, third), '--json'])

  expect(
    [cli.code, workflow.code, wrapper.code],
    `${cli.out}${cli.err}\n${workflow.said}\n${wrapper.out}${wrapper.err}`,
  ).toEqual([exitCode, exitCode, exitCode])
  const plain = (value: unknown, subject: number | string): unknown => comparable(value, subject, row.without ?? [])
  const typed = plain(facts(documentOf(cli) as never), first)
  expect(typed).toMatchObject(expected)
  expect(plain(resultFacts(workflow.result as never), second)).toEqual(typed)
  expect(plain(resultFacts(documentOf(wrapper) as never), third)).toEqual(typed)
}

function wordsOf(row: Row | undefined, subject: number | string): string[] {
  return (row?.wrapperWords ?? row?.words)?.(subject).map(String) ?? []
}

function cliWords({ command, words }: Row, subject: number | string): string[] {
  return [command, ...words(subject).map(String), '--json']
}

/** Exactly one document, in one line. */
function documentOf({ out, err }: Output, about = ''): unknown {
  expect(out, `${about} ${err}`).toMatch(/^[^\n]+\n$/)
  return JSON.parse(out)
}

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/

/** Without what differs from run to run: the subject, moments and durations. */
function comparable(value: unknown, subject: number | string, without: readonly string[]): unknown {
  if (value === subject) return '(subject)'
  if (typeof value === 'string') return MOMENT.test(value) && value !== LATER ? '(moment)' : value
  if (Array.isArray(value)) return value.map((each) => comparable(each, subject, without))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !without.includes(key))
      .map(([key, each]) => [
        key,
        /(_ms|Ms)$/.test(key) && each !== null ? '(duration)' : comparable(each, subject, without),
      ]),
  )
}
