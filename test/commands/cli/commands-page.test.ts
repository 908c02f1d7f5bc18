/** docs/commands.md says what the program says. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createFrame } from '../../../src/commands/cli/create-frame.ts'
import { createProgram } from '../../../src/commands/cli/program.ts'
import type { Terminal } from '../../../src/commands/cli/terminal.ts'
import { QUERY, SIGNAL } from '../../../src/workflows/ids.ts'

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

  it('has each signal and each query', () => {
    const section = sections.get('Signals and queries') ?? ''
    for (const name of [...Object.values(SIGNAL), ...Object.values(QUERY)]) expect(section).toContain(`\`${name}\``)
  })

  it('says of each command that it knew before how it exits', () => {
    const silent = DESCRIBED.filter(({ section }) => !/\bExit 0\b/.test(section)).map(({ name }) => name)
    expect(silent).toEqual([])
  })
})
