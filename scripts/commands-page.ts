/**
 * The parts of docs/commands.md and docs/behaviour/commands-as-workflows.md that are made of the table of commands: the list, the
 * workflows, and of each command what its help says. What stands between two such parts is written by hand and kept.
 */
import { readFileSync } from 'node:fs'
import type { AnyCommand, Route } from '../src/commands/command.ts'
import { kebab, TOPICS } from '../src/commands/command.ts'
import type { Field } from '../src/commands/fields.ts'
import { isRequired } from '../src/commands/fields.ts'
import { startOf } from './generated-commands.ts'

/** It is shipped as it is, without types. */
const { inputOf } = (await import(new URL('temporal/words.mjs', import.meta.url).href)) as {
  /** Null where help is asked for. @throws Error for words that don't fit */
  inputOf(shapes: readonly string[], words: readonly string[]): Record<string, unknown> | null
}

const BEGIN = '<!-- Made by `npm run docs`. -->'
const END = '<!-- End. -->'

export async function commandsPage(): Promise<string> {
  const commands = await inOrder()
  const text = readFileSync(new URL('../docs/commands.md', import.meta.url), 'utf8')
  const [first = '', ...parts] = text.split(/^## /m)
  const named = new Map(parts.map((part) => [part.slice(0, part.indexOf('\n')), part]))
  const names = new Set(commands.map(({ name }) => name))
  const others = [first, ...[...named].filter(([name]) => !/^[a-z-]+$/.test(name)).map(([, part]) => `## ${part}`)]
  const made = [listOf(commands), workflowsOf(commands), reasonsOf(commands)]
  return [
    ...others.map((part) => replaced(part, () => made.shift() ?? '')),
    ...commands.map((command) => sectionOf(command, names.has(command.name) ? named.get(command.name) : undefined)),
  ].join('')
}

export async function workflowsPage(): Promise<string> {
  const commands = await inOrder()
  const text = readFileSync(new URL('../docs/behaviour/commands-as-workflows.md', import.meta.url), 'utf8')
  const made = [
    table(
      ['type', 'runs', 'id, after `<prefix>:`'],
      withWorkflow(commands).map((command) => [
        `\`integrations:${command.name}\``,
        command.workflow === 'own' ? 'own' : 'program',
        `\`${startOf(command)[1]}\``,
      ]),
    ),
    reasonsOf(commands, '../commands.md'),
  ]
  return replaced(text, () => made.shift() ?? '')
}

async function inOrder(): Promise<AnyCommand[]> {
  const { TABLE } = await import('../src/commands/index.ts')
  return TABLE.toSorted((a, b) => TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic))
}

const withWorkflow = (commands: readonly AnyCommand[]): AnyCommand[] =>
  commands.filter(({ workflow }) => typeof workflow !== 'object')

/** The parts between the marks, one after the other. */
function replaced(text: string, make: () => string): string {
  return text.replace(new RegExp(`${BEGIN}\n[^]*?${END}`, 'g'), () => `${BEGIN}\n${make()}\n${END}`)
}

const table = (heads: readonly string[], rows: readonly (readonly string[])[]): string =>
  [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

function listOf(commands: readonly AnyCommand[]): string {
  return table(
    ['command', 'what it does'],
    commands.map(({ name, summary }) => [`[\`${name}\`](#${name})`, cell(lowered(summary))]),
  )
}

const lowered = (summary: string): string => summary.charAt(0).toLowerCase() + summary.slice(1).replace(/\.$/, '')

/** Workflows of their own that complete where a part failed: scripts/temporal/outcome.mjs. */
const COMPLETES = new Set([
  'prune',
  'refresh-tokens',
  'reconcile-webhooks',
  'replay-webhook',
  'retry-sync-item',
  'sync',
])

function workflowsOf(commands: readonly AnyCommand[]): string {
  return table(
    ['`--type`', '`--workflow-id`, after `<prefix>:`', '`--input`', 'wrapper, in `scripts/temporal/`'],
    withWorkflow(commands).map((command) => {
      const { name } = command
      const [, id, ...shapes] = startOf(command)
      const { words, input } = sampleOf(command, shapes)
      return [
        `\`integrations:${name}\`${COMPLETES.has(name) ? ' *' : ''}`,
        `\`${id}\``,
        `\`${JSON.stringify(input)}\``,
        `\`${[name, ...words].join(' ')}\``,
      ]
    }),
  )
}

/** The first example that a wrapper takes as it stands. */
function sampleOf({ name, examples }: AnyCommand, shapes: readonly string[]): { words: string[]; input: object } {
  for (const example of examples) {
    const words = example
      .split(' ')
      .slice(2)
      .filter((word) => word !== '--json')
    if (!example.startsWith(`integrations ${name}`) || /["'|<>]/.test(example)) continue
    try {
      const input = inputOf(shapes, words)
      if (input !== null) return { words, input }
    } catch {
      // It is for the command line alone: the next one.
    }
  }
  throw new Error(`None of the examples of ${name} is one of its workflow.`)
}

function reasonsOf(commands: readonly AnyCommand[], page = ''): string {
  return table(
    ['no workflow', 'why'],
    commands.flatMap(({ name, workflow }) =>
      typeof workflow === 'object' ? [[`[\`${name}\`](${page}#${name})`, workflow.none]] : [],
    ),
  )
}

function sectionOf(command: AnyCommand, before: string | undefined): string {
  const { name, summary } = command
  const made = `${BEGIN}\n${helpOf(command)}\n${END}`
  if (before === undefined) return `## ${name}\n${summary}\n\n${made}\n\n`
  return `## ${replaced(before, () => helpOf(command))}`
}

function helpOf(command: AnyCommand): string {
  const { fields, places = [], examples } = command
  const rows = [
    ...places.map((place) =>
      rowOf(
        isRequired(fields[place] as Field) ? `<${shown(place, fields[place])}>` : `[${shown(place, fields[place])}]`,
        fields[place] as Field,
      ),
    ),
    ...Object.entries(fields).flatMap(([field, value]) =>
      places.includes(field) ? [] : [rowOf(optionOf(field, value), value)],
    ),
    ...('confirm' in command ? [['`--yes`', 'do not ask']] : []),
  ]
  const routes = 'routes' in command ? (command.routes ?? []) : []
  return [
    ...(rows.length === 0 ? [] : [table(['argument or option', ''], rows), '']),
    ...['```sh', ...examples, '```'],
    ...('needsWorker' in command ? ['', 'A worker does the work: [without one it waits](#work-of-a-worker).'] : []),
    ...(routes.length === 0 ? [] : ['', `Over HTTP: ${routes.map(routeOf).join(', ')}.`]),
  ].join('\n')
}

const routeOf = ({ method, path }: Route): string => `\`${method.toUpperCase()} ${path}\``

const shown = (name: string, field: Field | undefined): string => `${kebab(name)}${field?.isList ? '...' : ''}`

function optionOf(name: string, { placeholder, isTrueAlone }: Field): string {
  if (placeholder === null) return `--${kebab(name)}`
  return isTrueAlone ? `--${kebab(name)} [${placeholder}]` : `--${kebab(name)} <${placeholder}>`
}

/** More are another page's matter, which the description names. */
const MOST_CHOICES = 16

function rowOf(word: string, { about, choices }: Field): string[] {
  const isTold =
    choices === undefined || choices.length > MOST_CHOICES || choices.every((choice) => about.includes(`${choice}:`))
  const allowed = isTold ? '' : `: ${choices.map((choice) => `\`${choice}\``).join(', ')}`
  return [`\`${word}\``, cell(`${about}${allowed}`)]
}

/** A `|` would end the cell. */
/** Outside of code a `<` would begin an element. */
const cell = (text: string): string =>
  text.replaceAll('|', '\\|').replace(/(`[^`]*`)|</g, (_, code: string | undefined) => code ?? '\\<')
