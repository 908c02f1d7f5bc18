import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { wordsOf } from '../../../src/commands/cli/command-words.ts'
import { createFrame } from '../../../src/commands/cli/create-frame.ts'
import { createProgram } from '../../../src/commands/cli/program.ts'
import type { Terminal } from '../../../src/commands/cli/terminal.ts'
import { COMMAND_WORKFLOWS } from '../../support/command-workflows.ts'

const terminal: Terminal = {
  out: () => {},
  err: () => {},
  isInteractive: false,
  columns: () => 80,
  prompts: {} as never,
  sources: { environment: {}, file: () => '', stdin: async () => '' },
}
const load = async () => {
  throw new Error('nothing is loaded for the words')
}
const program = createProgram(createFrame({ load, terminal }), terminal)

function words(name: string, fields: Record<string, unknown>): string[] {
  const command = program.commands.find((candidate) => candidate.name() === name)
  if (command === undefined) throw new Error(`no command ${name}`)
  return wordsOf(command, fields)
}

describe('a command’s input in the words of its command line', () => {
  it.each([
    ['doctor', {}, [], []],
    ['circuit', { id: 7, action: 'open' }, [], ['7', 'open']],
    [
      'circuit',
      { action: 'open', until: '2031-06-01T12:00:00Z', id: '7' },
      ['--until=2031-06-01T12:00:00Z'],
      ['7', 'open'],
    ],
    [
      'list',
      { limit: 10, provider: '-strange', stale: true, active: false },
      ['--provider=-strange', '--stale', '--limit=10'],
      [],
    ],
    ['config', { key: '--help' }, [], ['--help']],
    ['doctor', { failOn: 'warning' }, ['--fail-on=warning'], []],
    ['health', { failOn: ['failing', 'stale'] }, ['--fail-on=failing', '--fail-on=stale'], []],
    ['health', { failOn: 'stale' }, ['--fail-on=stale'], []],
    ['health', { id: 7 }, [], ['7']],
    ['delete', { id: 7, yes: true, force: false }, ['--yes'], ['7']],
    [
      'install',
      { provider: 'github', name: '', credential: { token: 'env:TOKEN' }, metadata: { owner: 'a=b', ids: [1, '2'] } },
      ['--name=', '--credential=token=env:TOKEN', '--metadata=owner=a=b', '--metadata=ids=[1,"2"]'],
      ['github'],
    ],
    ['install', { provider: 'github', credential: ['token=env:T'] }, ['--credential=token=env:T'], ['github']],
  ])('%s %j', (name, fields, options, args) => {
    expect(words(name, fields)).toEqual([name, '--json', '--no-interactive', ...options, '--', ...args])
  })

  it.each([
    ['circuit', { id: 7, action: 'open', untill: 'x' }, 'circuit takes id, action, until; "untill" was given.'],
    ['disable', { id: 7, toString: 1 }, 'disable takes id; "toString" was given.'],
    ['stats', { json: true }, '"json" is for terminals'],
    ['stats', { interactive: false }, '"interactive" is for terminals'],
    ['sync-progress', { id: 7, watch: true }, '"watch" is for terminals'],
    // It has no such option.
    ['stats', { watch: true }, 'stats takes provider, since; "watch" was given.'],
    ['circuit', { action: 'open' }, 'circuit needs "id".'],
    ['circuit', { id: 7 }, 'circuit needs "action": one of open, close, disable, auto, status.'],
    ['health', { action: 'enable' }, '"action" goes with "id", which was not given.'],
    ['show', { id: true }, '"id" takes a text or a number; what was given is of type boolean.'],
    ['show', { id: [7] }, '"id" takes a text or a number; what was given is a list.'],
    ['show', { id: null }, '"id" takes a text or a number; what was given is null.'],
    ['list', { limit: { n: 1 } }, '"limit" takes a text or a number; what was given is of type object.'],
    ['list', { limit: [1, 2] }, '"limit" takes a text or a number; what was given is a list.'],
    ['list', { health: ['failing', 'healthy'] }, '"health" takes a text or a number; what was given is a list.'],
    ['list', { stale: 'yes' }, '"stale" takes true or false; what was given is of type string.'],
    ['install', { provider: 'x', credential: 's3cret-value' }, '"credential" takes an object such as {"key":"value"}'],
  ])('%s %j is refused', (name, fields, message) => {
    expect(() => words(name, fields)).toThrow(message)
  })

  it('shows no value: it may be a secret', () => {
    expect(() => words('install', { provider: 'x', credential: 's3cret-value' })).toThrow(
      expect.objectContaining({ code: 'usage', message: expect.not.stringContaining('s3cret') }),
    )
  })
})

describe('the list of commands', () => {
  const listed = COMMAND_WORKFLOWS.map(({ command }) => command)

  it('has each command of the command line once, with a workflow or a reason', () => {
    const commands = program.commands.map((command) => command.name())
    expect(commands.filter((name) => !listed.includes(name))).toEqual([])
    expect(listed.filter((name, place) => listed.indexOf(name) !== place)).toEqual([])
  })

  it('is the one of the documentation', async () => {
    const page = await readFile(new URL('../../../docs/behaviour/commands-as-workflows.md', import.meta.url), 'utf8')
    const rows = COMMAND_WORKFLOWS.map((entry) =>
      entry.type === null
        ? `| \`${entry.command}\` | ${entry.reason} |`
        : `| \`${entry.type}\` | ${entry.runs} | \`${entry.id}\` |`,
    )
    expect(rows.filter((row) => !page.includes(`\n${row}\n`))).toEqual([])
  })

  it('has no workflow without a command', () => {
    const workflows = COMMAND_WORKFLOWS.flatMap(({ command, type }) => (type === null ? [] : [command]))
    expect(workflows.filter((name) => !program.commands.some((command) => command.name() === name))).toEqual([])
  })

  it('names in an id only what the command takes', () => {
    const ids = COMMAND_WORKFLOWS.flatMap((entry) =>
      entry.type !== null && entry.runs === 'program' ? [[entry.command, /<(\w+)>/.exec(entry.id)?.[1]] as const] : [],
    )
    for (const [name, field] of ids)
      if (field !== undefined) {
        const args = program.commands.find((command) => command.name() === name)?.registeredArguments ?? []
        expect([name, args.map((argument) => argument.name())]).toEqual([name, expect.arrayContaining([field])])
      }
  })
})
