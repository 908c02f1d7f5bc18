/** docs/commands.md says what the program says. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createFrame } from '../../../src/commands/cli/create-frame.ts'
import { createProgram } from '../../../src/commands/cli/program.ts'
import type { Terminal } from '../../../src/commands/cli/terminal.ts'
import { QUERY, SIGNAL } from '../../../src/workflows/ids.ts'
import { COMMAND_WORKFLOWS } from '../../support/command-workflows.ts'

const terminal: Terminal = {
  out: () => {},
  err: () => {},
  isInteractive: false,
  columns: () => 80,
  prompts: {} as never,
  sources: { environment: {}, file: () => '', stdin: async () => '' },
}
const load = async () => expect.unreachable('no host is needed')
const { commands } = createProgram(createFrame({ load, terminal }), terminal)

const page = readFileSync(new URL('../../../docs/commands.md', import.meta.url), 'utf8')
/** The parts under second-level headings. */
const sections = new Map(page.split(/^## /m).map((part): [string, string] => [part.slice(0, part.indexOf('\n')), part]))
const COMMON = ['--json', '--no-interactive']
const DESCRIBED = commands.map((command) => {
  const name = command.name()
  return { command, name, section: sections.get(name) ?? '' }
})

describe('docs/commands.md', () => {
  it('has a section for each command and no other, in the order of the help', () => {
    const names = commands.map((command) => command.name())
    expect([...sections.keys()].filter((heading) => /^[a-z-]+$/.test(heading))).toEqual(names)
    for (const name of names) expect(page).toContain(`[\`${name}\`](#${name})`)
  })

  it.each(COMMON)('explains %s', (flag) => {
    expect(sections.get('Options of every command')).toContain(`\`${flag}\``)
  })

  it('has each workflow of a command, in the order of the help, and why the others have none', () => {
    const threeWays = sections.get('Three ways') ?? ''
    const documented = [...threeWays.matchAll(/^\| `(integrations:[\w-]+)`(?: \*)? \| `([^`]+)` \| `\{/gm)]
    const wanted = COMMAND_WORKFLOWS.filter((entry) => entry.type !== null)
    expect(documented.map(([, type, id]) => [type, id])).toEqual(wanted.map(({ type, id }) => [type, id]))
    for (const entry of COMMAND_WORKFLOWS)
      if (entry.type === null)
        expect(threeWays).toContain(`| [\`${entry.command}\`](#${entry.command}) | ${entry.reason} |`)
    expect(COMMAND_WORKFLOWS.map(({ command }) => command)).toEqual(commands.map((command) => command.name()))
  })

  it('has each signal and each query', () => {
    const section = sections.get('Signals and queries') ?? ''
    for (const name of [...Object.values(SIGNAL), ...Object.values(QUERY)]) expect(section).toContain(`\`${name}\``)
  })

  it('has of each command its options as the help has them, their choices, and no other option', () => {
    for (const { command, name, section } of DESCRIBED) {
      for (const option of command.options.filter(({ long }) => !COMMON.includes(long ?? ''))) {
        expect(section, name).toContain(`\`${option.flags}\``)
        for (const choice of option.argChoices ?? []) expect(section, name).toContain(`\`${choice}\``)
      }
      const named = [...section.matchAll(/^\| .*$/gm)].flatMap(([row]) => {
        const [, first = ''] = row.split('|')
        return [...first.matchAll(/`(--[\w-]+)/g)].map(([, flag]) => flag)
      })
      const known = command.options.map(({ long }) => long)
      expect(
        named.filter((flag) => !known.includes(flag)),
        name,
      ).toEqual([])
    }
  })

  it('has each argument and its choices', () => {
    for (const { command, name, section } of DESCRIBED)
      for (const argument of command.registeredArguments) {
        const shape = argument.required ? `<${argument.name()}>` : `[${argument.name()}]`
        for (const word of [shape, ...(argument.argChoices ?? [])]) expect(section, name).toContain(`\`${word}\``)
      }
  })

  it('has the examples of the help, and says how each command exits', () => {
    for (const { command, name, section } of DESCRIBED) {
      let help = ''
      command.configureOutput({
        writeOut: (text) => {
          help += text
        },
      })
      command.outputHelp()
      const examples = [...help.matchAll(/^ {2}\$ (.*)$/gm)].map(([, example = '']) => example)
      expect(examples.length, name).toBeGreaterThan(0)
      expect(section.split('\n'), name).toEqual(expect.arrayContaining(examples))
      expect(section, name).toMatch(/\bExit 0\b/)
    }
  })
})
