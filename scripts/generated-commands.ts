/** What is made of the table of commands: its index, the names of the workflows, and the wrappers' table. */
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = new URL('../src/commands/', import.meta.url)

/** `src/commands/index.ts`: each file of the folder that exports a command. */
export function commandIndex(): string {
  const found = readdirSync(FOLDER)
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
    '/** The commands that run as they are, each a workflow of its name. Made by `npm run docs` of the table of commands. */',
    'export {',
    ...names.sort().map((name) => `  runProgramCommand as 'integrations:${name}',`),
    "} from './started-commands.ts'",
    '',
  ].join('\n')
}
