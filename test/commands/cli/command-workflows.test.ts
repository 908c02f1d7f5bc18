import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
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
