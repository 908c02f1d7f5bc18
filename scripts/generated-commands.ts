/** What is made of the table of commands: its index, the names of the workflows, and the wrappers' table. */
import { readdirSync, readFileSync } from 'node:fs'
import type { AnyCommand } from '../src/commands/command.ts'
import { kebab } from '../src/commands/command.ts'
import type { Field } from '../src/commands/fields.ts'
import { isRequired } from '../src/commands/fields.ts'

const FOLDER = new URL('../src/commands/', import.meta.url)

/** `src/commands/index.ts`: each file of the folder and its topics that exports a command. */
export function commandIndex(): string {
  const found = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && file !== 'index.ts')
    .sort()
    .flatMap((file) => {
      const [, name] =
        /^export const (\w+)(?:: Command)? = (?:command|listing|hostlessCommand)\(/m.exec(
          readFileSync(new URL(file, FOLDER), 'utf8'),
        ) ?? []
      return name === undefined ? [] : [{ file, name }]
    })
  return [
    '/** The table of commands. Made by `npm run docs` of the files of this folder. */',
    ...[{ file: 'command.ts', line: "import type { AnyCommand } from './command.ts'" }]
      .concat(found.map(({ file, name }) => ({ file, line: `import { ${name} } from './${file}'` })))
      // As biome sorts imports: `sync.ts` before `sync-progress.ts`.
      .sort((a, b) => (a.file.slice(0, -'.ts'.length) < b.file.slice(0, -'.ts'.length) ? -1 : 1))
      .map(({ line }) => line),
    '',
    'export const TABLE: readonly AnyCommand[] = [',
    ...found.map(({ name }) => `  ${name},`),
    ']',
    '',
  ].join('\n')
}

/** `src/workflows/command-workflows.ts`: the names under which the command line's program runs as a workflow. */
export async function commandWorkflows(): Promise<string> {
  const { TABLE } = await import('../src/commands/index.ts')
  const names = TABLE.filter(({ workflow = 'program' }) => workflow === 'program').map(({ name }) => name)
  return [
    '/** The commands that run as they are, each a workflow of its name, which tells the one function what to run. Made by `npm run docs`. */',
    'export {',
    ...names.sort().map((name) => `  runProgramCommand as 'integrations:${name}',`),
    "} from './started-commands.ts'",
    '',
  ].join('\n')
}

/** How a word of a wrapper becomes the input of a workflow of its own, which has other names. */
const OWN: Readonly<Record<string, readonly [mode: string, id: string, ...shapes: string[]]>> = {
  'advance-cursor': [
    'each',
    'advance-cursor:<integrationId>',
    '<id=integrationId:int>',
    '--stream:text',
    '--reclaim-stale:flag',
    '--limit:int',
  ],
  'evaluate-failures': ['join', 'evaluate-failures'],
  'find-orphans': ['each', 'find-orphans', '<model:text>', '--integration=integrationId:int', '--limit:int'],
  'list-failed-items': [
    ...(['each', 'list-failed-items'] as const),
    ...['--integration=integrationId:int', '--stream:text', '--since:text', '--limit:int'],
  ],
  prune: ['join', 'prune'],
  'reconcile-webhooks': [
    'once',
    'reconcile-webhooks',
    '[integration=integrationId:int]',
    '--since:text',
    '--dry-run:flag',
  ],
  'recover-webhooks': ['join', 'recover-webhooks'],
  'refresh-tokens': ['join', 'refresh-tokens:<integrationId>', '[id=integrationId:int]'],
  'replay-webhook': ['once', 'webhook:<webhookId>', '<id=webhookId:int>'],
  'retry-sync-item': ['once', 'sync-item:<itemId>', '<id=itemId:int>', '--tries:int'],
  'skip-sync-item': ['each', 'skip-sync-item:<itemId>', '<id=itemId:int>'],
  sync: [
    ...(['each', 'start-sync:<integrationId>'] as const),
    ...[
      '--integration=integrationId:int',
      '--stream:text',
      '--dry-run:flag',
      '--limit:int',
      '--from:text',
      '--to:text',
    ],
  ],
}

/** `scripts/temporal/<command>`, by its path. */
export async function commandWrappers(): Promise<Readonly<Record<string, string>>> {
  const { TABLE } = await import('../src/commands/index.ts')
  return Object.fromEntries(
    TABLE.filter(({ workflow }) => typeof workflow !== 'object').map((command) => [
      `scripts/temporal/${command.name}`,
      wrapperOf(command),
    ]),
  )
}

/** The mode, the workflow's id and the words that it takes, as scripts/temporal/lib.sh has them. */
export function startOf(command: AnyCommand): readonly [mode: string, id: string, ...shapes: string[]] {
  const { name, fields, places = [] } = command
  return (
    OWN[name] ?? [
      'each',
      places[0] === undefined || fields[places[0]]?.choices !== undefined ? name : `${name}:<${places[0]}>`,
      ...places.map((place) => shapeOf(place, fields[place] as Field, true)),
      ...Object.entries(fields).flatMap(([field, value]) =>
        places.includes(field) || value.isForTerminals ? [] : [shapeOf(field, value, false)],
      ),
      ...('confirm' in command ? ['--yes:flag'] : []),
    ]
  )
}

function wrapperOf(command: AnyCommand): string {
  const { name } = command
  const [mode, id, ...shapes] = startOf(command)
  return `#!/bin/sh
# \`integrations ${name}\` as a workflow; lib.sh has the environment. Made by \`npm run docs\` of the table of commands.
HERE=$(dirname -- "$(readlink -f -- "$0")")
# shellcheck source=scripts/temporal/lib.sh
. "$HERE/lib.sh"
execute ${[mode, name, `'${id}'`, ...shapes.map((shape) => `'${shape}'`), '-- "$@"'].join(' ')}
`
}

/** In the words of scripts/temporal/words.mjs. */
function shapeOf(name: string, field: Field, isPlace: boolean): string {
  const word = kebab(name)
  const shape = `${word}:${kindOf(name, field)}`
  if (!isPlace) return `--${shape}`
  return isRequired(field) ? `<${shape}>` : `[${shape}]`
}

/** A credential of a workflow is a reference, since its input is kept. */
function kindOf(name: string, { placeholder, isList, read }: Field): string {
  if (placeholder === null) return 'flag'
  if (isList) return name === 'credential' ? 'env' : 'list'
  return read('7') === 7 ? 'int' : 'text'
}
