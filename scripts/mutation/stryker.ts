/** Mutates the rules with Stryker: one file of `src/` at a time, against the tests that need no server. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import type { FileResult, Survivor } from './results.ts'
import { hashOf, root, shortened } from './results.ts'

/** What a result of Stryker's says that we read. */
interface Mutant {
  readonly location: { readonly start: Position; readonly end: Position }
  readonly mutatorName: string
  readonly replacement: string
  readonly status: string
}
/** Counted from 1. */
interface Position {
  readonly line: number
  readonly column: number
}

/** The pure rules of each concept. */
export function ruleFiles(): string[] {
  return filesIn('src').filter((file) => /(^|-)rules\.ts$/.test(basename(file)))
}

/**
 * The tests of the rule's folder that import it, else those elsewhere that do, else all of the folder. Rules are pure, so tests that need
 * a server are left out, and so are those of the kit (`test/testing`), which run whole hosts.
 */
export function testsOfRule(file: string): string[] {
  const imported = `${file.slice('src'.length)}'`
  const tests = filesIn('test').filter(
    (test) => /^[^.]+\.test\.ts$/.test(basename(test)) && !test.startsWith('test/testing/'),
  )
  const own = tests.filter((test) => dirname(test) === dirname(file).replace(/^src/, 'test'))
  const isImporting = (test: string): boolean => readFileSync(root + test, 'utf8').includes(imported)
  const choices = [own.filter(isImporting), tests.filter(isImporting), own]
  return choices.find((choice) => choice.length > 0) ?? []
}

function filesIn(folder: string): string[] {
  return readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
    .map((file) => `${folder}/${file}`)
    .sort()
}

export async function mutateRule(file: string, tests: readonly string[]): Promise<FileResult> {
  process.env.MUTATION_TEST_FILES = JSON.stringify(tests)
  const mutants = (await new Stryker({
    mutate: [file],
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'scripts/mutation/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    // Two cores are shared with whatever else runs here: a timeout that is short calls a slow test a kill.
    concurrency: 1,
    // A rule without a test has mutants that survive.
    allowEmpty: true,
    timeoutMS: 20_000,
    tempDirName: '.data/mutation/sandbox',
    ignorePatterns: ['.data'],
    // The tests run what Vite makes of a file: types are not checked.
    disableTypeChecks: false,
    warnings: { slow: false },
    reporters: ['json'],
    jsonReporter: { fileName: `.data/mutation/${file.replaceAll('/', '-')}.report.json` },
    allowConsoleColors: false,
    logLevel: 'warn',
  } as never).runMutationTest()) as readonly Mutant[]
  const text = readFileSync(root + file, 'utf8')
  const counted = { killed: 0, timedOut: 0, invalid: 0, survivors: [] as Survivor[] }
  for (const { status, location, mutatorName: mutator, replacement } of mutants) {
    if (status === 'Timeout') counted.timedOut += 1
    // A runtime error: the mutant keeps a test file from loading.
    if (status === 'Killed' || status === 'Timeout' || status === 'RuntimeError') counted.killed += 1
    else if (status === 'Survived' || status === 'NoCoverage') {
      const source = (text.split('\n')[location.start.line - 1] ?? '').trim()
      const change = `${shortened(between(text, location.start, location.end))} → ${shortened(replacement)}`
      counted.survivors.push({ line: location.start.line, source: shortened(source), mutator, change })
    } else if (status === 'CompileError') counted.invalid += 1
    else throw new Error(`${file}: a mutant of line ${location.start.line} ended as ${status}`)
  }
  counted.survivors.sort((a, b) => a.line - b.line)
  return { hash: hashOf([file, ...tests]), date: new Date().toISOString().slice(0, 10), ...counted, notRun: 0 }
}

function between(text: string, start: Position, end: Position): string {
  const lines = text.split('\n').slice(start.line - 1, end.line)
  const last = lines.length - 1
  return lines
    .map((line, at) => line.slice(at === 0 ? start.column - 1 : 0, at === last ? end.column - 1 : undefined))
    .join('\n')
}
