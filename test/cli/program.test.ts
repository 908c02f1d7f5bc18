import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { BackendUnreachable, IntegrationNotFound, SchemaBehind } from '../../src/core/errors.ts'
import type { Integrations } from '../../src/integrations.ts'

/** What a command asked of the host's object, in order. */
let calls: string[]
/** How the host's object answers. */
let answers: {
  ready: () => Promise<void>
  migrate: () => Promise<{ applied: string[] }>
  get: () => Promise<never>
  start: () => Promise<'started' | 'already running'>
}
let printed: string[]

beforeEach(() => {
  calls = []
  printed = []
  answers = {
    ready: async () => {},
    migrate: async () => ({ applied: [] }),
    get: async () => ({}) as never,
    start: async () => 'started',
  }
  vi.spyOn(console, 'log').mockImplementation((line: string) => printed.push(line))
})

afterEach(() => {
  vi.restoreAllMocks()
})

function integrations(): Integrations {
  const noted = <T>(call: string, answer: () => T): T => {
    calls.push(call)
    return answer()
  }
  return {
    ready: () => noted('ready', answers.ready),
    migrate: () => noted('migrate', answers.migrate),
    get: (id: number) => noted(`get ${id}`, answers.get),
    syncs: { start: (id: number) => noted(`start ${id}`, answers.start) },
    close: () => noted('close', async () => {}),
  } as unknown as Integrations
}

async function run(...words: string[]): Promise<{ exitCode: number; out: string; err: string }> {
  let out = ''
  let err = ''
  const program = createProgram(async () => {
    calls.push('load')
    return integrations()
  })
  for (const command of [program, ...program.commands])
    command.exitOverride().configureOutput({
      writeOut: (text) => {
        out += text
      },
      writeErr: (text) => {
        err += text
      },
    })
  try {
    await program.parseAsync(words, { from: 'user' })
    return { exitCode: 0, out, err }
  } catch (error) {
    const { exitCode } = error as { exitCode?: number }
    if (exitCode === undefined) throw error
    return { exitCode, out, err }
  }
}

describe('help', () => {
  it.each([
    [['--help'], ['migrate', 'sync']],
    [['help'], ['migrate', 'sync']],
    [['help', 'sync'], ['--integration <id>']],
    [['sync', '--help'], ['--integration <id>']],
    [['migrate', '--help'], ['Brings the tables up to this release.']],
  ])('%j needs no host and no database', async (words, said) => {
    const { exitCode, out } = await run(...words)
    expect(exitCode).toBe(0)
    for (const text of said) expect(out).toContain(text)
    expect(calls).toEqual([])
  })
})

describe('bad input', () => {
  it.each<[string, string[], string]>([
    ['an unknown command', ['sink'], "unknown command 'sink'"],
    ['an unknown option', ['sync', '--integration', '1', '--hard'], "unknown option '--hard'"],
    ['too many words', ['migrate', 'now'], 'too many arguments'],
    ['no integration', ['sync'], "required option '--integration <id>' not specified"],
    ['an option without its value', ['sync', '--integration'], 'argument missing'],
    ['a name', ['sync', '--integration', 'github'], '"github" was given'],
    ['zero', ['sync', '--integration', '0'], '"0" was given'],
    ['a negative number', ['sync', '--integration=-1'], '"-1" was given'],
    ['a fraction', ['sync', '--integration', '1.5'], '"1.5" was given'],
    ['a leading zero', ['sync', '--integration', '01'], '"01" was given'],
    ['a hexadecimal number', ['sync', '--integration', '0x10'], '"0x10" was given'],
    ['an exponent', ['sync', '--integration', '1e3'], '"1e3" was given'],
    ['nothing', ['sync', '--integration', ''], '"" was given'],
    ['a space', ['sync', '--integration', ' 1'], '" 1" was given'],
    ['more than a number holds', ['sync', '--integration', '9007199254740992'], '"9007199254740992" was given'],
    ['seventeen digits', ['sync', '--integration', '10000000000000000'], '"10000000000000000" was given'],
  ])('%s ends with 1 before the host is loaded', async (_, words, said) => {
    const { exitCode, err } = await run(...words)
    expect(exitCode).toBe(1)
    expect(err).toContain(said)
    expect(calls).toEqual([])
  })

  it('says what an id is', async () => {
    expect((await run('sync', '--integration', 'x')).err).toContain('an id is a positive whole number')
  })
})

describe('sync', () => {
  it.each([
    ['sync', '7'],
    ['integrations:sync', '7'],
    ['sync', '9007199254740991'],
  ])('%s --integration %s starts a run', async (command, id) => {
    await run(command, '--integration', id)
    expect(calls).toEqual(['load', 'ready', `get ${id}`, `start ${id}`, 'close'])
    expect(printed).toEqual(['Started 1'])
  })

  it('of one that runs already is a note, not an error', async () => {
    answers.start = async () => 'already running'
    expect((await run('sync', '--integration', '7')).exitCode).toBe(0)
    expect(printed).toEqual(['Already running'])
  })

  it('of an unknown integration starts nothing', async () => {
    answers.get = async () => Promise.reject(new IntegrationNotFound(7))
    await expect(run('sync', '--integration', '7')).rejects.toMatchObject({ code: 'integration_not_found' })
    expect(calls).not.toContain('start 7')
  })

  it('looks first whether Postgres answers and the tables are up to date', async () => {
    answers.ready = async () => Promise.reject(new SchemaBehind(0, 1))
    await expect(run('sync', '--integration', '7')).rejects.toMatchObject({ code: 'schema_behind' })
    expect(calls).toEqual(['load', 'ready'])
  })
})

describe('migrate', () => {
  it.each([['migrate'], ['integrations:migrate']])('%s names what it applied', async (command) => {
    answers.migrate = async () => ({ applied: ['0000_initial', '0001_next'] })
    await run(command)
    expect(printed).toEqual(['Applied: 0000_initial, 0001_next'])
    expect(calls.at(-1)).toBe('close')
  })

  it('says so when there is nothing to apply', async () => {
    await run('migrate')
    expect(printed).toEqual(['Nothing to apply.'])
  })

  it('is not kept from its work by tables that are behind', async () => {
    answers.ready = async () => Promise.reject(new SchemaBehind(0, 1))
    answers.migrate = async () => ({ applied: ['0000_initial'] })
    await run('migrate')
    expect(printed).toEqual(['Applied: 0000_initial'])
  })

  it('does nothing when Postgres does not answer', async () => {
    answers.ready = async () => Promise.reject(new BackendUnreachable('Postgres', 'db:5432', { remedy: '' }))
    await expect(run('migrate')).rejects.toMatchObject({ code: 'backend_unreachable' })
    expect(calls).not.toContain('migrate')
  })
})
