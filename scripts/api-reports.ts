/**
 * Writes `api/*.api.md`: what each entry of the package exports, with its types. A review sees a changed type.
 *
 * With `--check` it writes no report and ends with 1 where one differs. It compiles the declarations of the release to do so:
 * they have rules of their own, which this checks as well.
 */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from '@microsoft/api-extractor'
import { run } from '../dev/local-process.ts'
import packageJson from '../package.json' with { type: 'json' }
import tsconfig from '../tsconfig.json' with { type: 'json' }

const root = fileURLToPath(new URL('..', import.meta.url))
/** Not below node_modules: API Extractor takes whatever is there for another package. */
const DECLARATIONS = join(root, '.data', 'declarations')
const REPORTS = join(root, 'api')
const COMPILE_SECONDS = 300

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } })

const entries = Object.entries(packageJson.exports).flatMap(([name, entry]) =>
  typeof entry === 'string'
    ? []
    : [
        {
          report: `${name === '.' ? 'index' : name.slice('./'.length)}.api.md`,
          file: join(DECLARATIONS, entry.types.slice('./dist/'.length)),
        },
      ],
)

await declare()
const wrong = [...differing(), ...foreign()]
for (const line of wrong) console.error(line)
if (wrong.length > 0) process.exitCode = 1

async function declare(): Promise<void> {
  rmSync(DECLARATIONS, { recursive: true, force: true })
  // One thread: each further one makes the types that it needs again.
  const args = ['-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', DECLARATIONS, '--checkers', '1']
  const compiler = join(root, 'node_modules', 'typescript-7', 'bin', 'tsc')
  const { code, output } = await run(process.execPath, [compiler, ...args, '--pretty', 'false'], {
    cwd: root,
    seconds: COMPILE_SECONDS,
  })
  if (code === 0) return
  console.error(output.trim())
  process.exit(1)
}

/** One program for all entries: reading the types takes longer than reporting them. */
function differing(): string[] {
  let state: CompilerState | undefined
  return entries.flatMap(({ report, file }) => {
    const config = configOf(report, file)
    state ??= CompilerState.create(config)
    const lines: string[] = []
    const { apiReportChanged } = Extractor.invoke(config, {
      compilerState: state,
      localBuild: !values.check,
      messageCallback: (message) => {
        if (message.logLevel === 'error') lines.push(message.formatMessageWithLocation(root))
        message.handled = true
      },
    })
    if (apiReportChanged && values.check)
      lines.push(
        `api/${report} is not what the code gives. Run \`npm run docs\`, look at the difference, and commit it.`,
      )
    else if (apiReportChanged) console.log(`api/${report} is written.`)
    return lines
  })
}

/** Reports of entries that are gone. */
function foreign(): string[] {
  const known = entries.map(({ report }) => report)
  return readdirSync(REPORTS)
    .filter((name) => !known.includes(name))
    .map((name) => `api/${name} is of no entry in package.json. Delete it.`)
}

function configOf(report: string, file: string): ExtractorConfig {
  const silent = { default: { logLevel: ExtractorLogLevel.None } }
  return ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: file,
      compiler: {
        overrideTsconfig: {
          compilerOptions: { ...tsconfig.compilerOptions, customConditions: [] },
          files: entries.map((entry) => entry.file),
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: report,
        reportFolder: REPORTS,
        reportTempFolder: join(DECLARATIONS, 'reports'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
      // Docstrings and missing exports have tests of their own: test/house/.
      messages: {
        compilerMessageReporting: silent,
        extractorMessageReporting: silent,
        tsdocMessageReporting: silent,
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, 'package.json'),
  })
}
