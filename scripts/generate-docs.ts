/** `npm run docs`: writes the pages and the lists that are made of the code. With `--check` it writes nothing and ends with 1 where one differs. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { benchmarkFiles } from './benchmarks-page.ts'
import { commandsPage, workflowsPage } from './commands-page.ts'
import { configurationPage } from './configuration-page.ts'
import { dependenciesPage } from './dependencies-page.ts'
import { commandIndex, commandWorkflows, commandWrappers } from './generated-commands.ts'
import { mutationPage } from './mutation/page.ts'
import { webhookDoorsPage } from './webhook-doors-page.ts'
import { wrapped } from './wrapped.ts'

/** In this order: later ones are made of what earlier ones wrote. */
const PAGES: Readonly<Record<string, () => string | Promise<string>>> = {
  'docs/configuration.md': configurationPage,
  'src/commands/index.ts': commandIndex,
  'src/workflows/command-workflows.ts': commandWorkflows,
  'docs/commands.md': commandsPage,
  'docs/behaviour/commands-as-workflows.md': workflowsPage,
  'docs/webhook-doors.md': webhookDoorsPage,
  'docs/dependencies.md': dependenciesPage,
  'docs/mutation.md': mutationPage,
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })
const root = fileURLToPath(new URL('..', import.meta.url))

for (const [path, make] of Object.entries(PAGES)) keep(path, await make())
for (const [path, text] of Object.entries(benchmarkFiles())) keep(path, text)
for (const [path, text] of Object.entries(await commandWrappers())) keep(path, text, 0o755)

function keep(path: string, made: string, mode = 0o644): void {
  const file = root + path
  const text = path.endsWith('.md') ? wrapped(made) : made
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return
  if (values.check) {
    console.error(`${path} is not what the code makes. Run \`npm run docs\` and commit it.`)
    process.exitCode = 1
  } else {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { mode })
    console.log(`${path} is written.`)
  }
}
