/**
 * `npm test`: prepares the machine, then runs every test but those of the programs as processes and the long ones.
 * `npm run test:stacks` and `npm run test:long`: these.
 * What follows `--` goes to vitest: `npm test -- --project postgres -t claim`.
 *
 * The last line is always `N passed, N failed`. It fails as well when nothing ran, when a test was skipped, and when
 * something broke outside a test.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SUITES } from '../vitest.config.ts'

/** What we read of vitest's json report. */
interface Report {
  numPassedTests: number
  numPendingTests: number
  numTodoTests: number
  testResults: { status: string; assertionResults: { status: string }[] }[]
}

interface Tally {
  passed: number
  failed: number
  remarks: string[]
}

const root = fileURLToPath(new URL('..', import.meta.url))

function projectsOf(args: string[], suite: keyof typeof SUITES): string[] {
  if (args.some((arg) => arg === '--project' || arg.startsWith('--project='))) return []
  return SUITES[suite].flatMap((project) => ['--project', project])
}

function runVitest(args: string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(`${root}node_modules/.bin/vitest`, ['run', ...args], { cwd: root, stdio: 'inherit' })
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 1))
  })
}

/** A file that breaks before its first test has no failed test, and neither has an error nobody awaited: each counts. */
function tallyOf(report: Report | undefined, exitCode: number, filtered: boolean): Tally {
  const remarks: string[] = []
  const passed = report?.numPassedTests ?? 0
  const failedOf = (file: Report['testResults'][number]) =>
    file.assertionResults.filter((test) => test.status === 'failed').length
  let failed = 0
  for (const file of report?.testResults ?? []) failed += failedOf(file) || (file.status === 'failed' ? 1 : 0)
  const skipped = (report?.numPendingTests ?? 0) + (report?.numTodoTests ?? 0)
  if (skipped > 0 && !filtered) {
    remarks.push(`${skipped} skipped: a test that does not run is counted as failed.`)
    failed += skipped
  }
  if (passed + failed === 0) {
    remarks.push('No test ran.')
    failed = 1
  }
  if (exitCode !== 0 && failed === 0) {
    remarks.push(`Something broke outside a test (vitest left with ${exitCode}, see above).`)
    failed = 1
  }
  return { passed, failed, remarks }
}

async function main(argv: string[]): Promise<Tally> {
  const suite = (['--long', '--stacks'] as const).find((name) => argv.includes(name)) ?? ''
  const args = argv.filter((arg) => arg !== suite)
  const { prepareMachine } = await import('./prepare-machine.ts')
  await prepareMachine({ hasBrowser: suite !== '' })

  const folder = await mkdtemp(join(tmpdir(), 'durable-integrations-test-'))
  try {
    const file = join(folder, 'report.json')
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
    const exitCode = await runVitest([...projectsOf(args, suite), ...reporters, ...args])
    const report = await readFile(file, 'utf8').then(
      (text) => JSON.parse(text) as Report,
      () => undefined,
    )
    return tallyOf(
      report,
      exitCode,
      args.some((arg) => arg === '-t' || arg.startsWith('--testNamePattern')),
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

// Ctrl-C reaches vitest as well, which stops its servers; we stay for the last line.
process.on('SIGINT', () => {})

const tally = await main(process.argv.slice(2)).catch((error: unknown): Tally => {
  const message = error instanceof Error ? error.message : String(error)
  return { passed: 0, failed: 1, remarks: [`The tests could not be run: ${message}`] }
})
for (const remark of tally.remarks) console.log(remark)
process.exitCode = tally.failed === 0 ? 0 : 1
console.log(`${tally.passed} passed, ${tally.failed} failed`)
