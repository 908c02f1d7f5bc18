/** Providers as `make-provider` writes them, compiled and run as whoever has them written would. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { usualDoor } from '../../../src/commands/scaffold/door-text.ts'
import type { Part } from '../../../src/commands/scaffold/names.ts'
import { PARTS, providerNames } from '../../../src/commands/scaffold/names.ts'
import { providerFile } from '../../../src/commands/scaffold/provider-file.ts'
import { testFile } from '../../../src/commands/scaffold/test-file.ts'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import {
  TIMESTAMPED_HMAC,
  timestampedHmac,
  usualTimestampedHmac,
} from '../../../src/webhooks/catalogue/timestamped-hmac.ts'

const PACKAGE = fileURLToPath(new URL('../../../', import.meta.url))

export const COMBINATIONS: readonly (readonly Part[])[] = Array.from({ length: 2 ** PARTS.length }, (_, bits) =>
  PARTS.filter((_part, place) => (bits >> place) % 2 === 1),
)

/** @param like a door of the catalogue @returns the folder's name in `folder` */
export async function writeProvider(
  folder: string,
  parts: readonly Part[],
  identifier = 'acme',
  like: string | null = null,
): Promise<string> {
  const name = like ?? (parts.length === 0 ? 'none' : parts.join('-'))
  const names = providerNames(identifier)
  const door = doorNamed(like, names.dashed)
  const chosen = new Set(parts)
  await mkdir(join(folder, name), { recursive: true })
  await writeFile(join(folder, name, `${identifier}.ts`), providerFile(names, chosen, door))
  await writeFile(join(folder, name, `${identifier}.test.ts`), testFile(names, chosen, door))
  return name
}

/** Of no provider: the usual one, and one with each option. */
export const TIMESTAMPED = [TIMESTAMPED_HMAC, `${TIMESTAMPED_HMAC}-otherwise`]

function doorNamed(like: string | null, dashed: string) {
  const usual = usualTimestampedHmac(dashed)
  if (like === TIMESTAMPED[0]) return timestampedHmac(usual)
  if (like === TIMESTAMPED[1])
    return timestampedHmac({ ...usual, signatureHeader: 'acme-sign', separator: '', encoding: 'base64', tolerance: 60 })
  return (like === null ? undefined : WEBHOOK_DOORS[like]) ?? usualDoor(dashed)
}

/** Everything on that a host may have on, beyond `strict`. */
const STRICTEST = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  noImplicitReturns: true,
  noUnusedLocals: true,
  noUnusedParameters: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  erasableSyntaxOnly: false,
}

const RESOLUTIONS = {
  nodenext: { module: 'nodenext', moduleResolution: 'nodenext' },
  bundler: { module: 'esnext', moduleResolution: 'bundler' },
}

/**
 * What a compiler says of the files of a folder, on our sources; `skipLibCheck` is for the packages.
 *
 * @param compiler TypeScript 6, with which a release is compiled, or 7, which takes a tenth of its time
 */
export async function compilerErrors(
  folder: string,
  { resolution, compiler }: { resolution: keyof typeof RESOLUTIONS; compiler: 'typescript' | 'typescript-7' },
): Promise<string[]> {
  const compilerOptions = {
    ...STRICTEST,
    ...RESOLUTIONS[resolution],
    target: 'es2023',
    lib: ['es2023', 'esnext.disposable'],
    customConditions: ['durable-source'],
    // Of our sources, which are no part of what is looked at here.
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
  }
  const project = join(folder, 'tsconfig.json')
  await writeFile(project, JSON.stringify({ compilerOptions, include: ['.'] }))
  const tsc = join(PACKAGE, `node_modules/${compiler}/bin/tsc`)
  const { stdout } = await promisify(execFile)(process.execPath, [tsc, '-p', project, '--pretty', 'false'], {
    cwd: folder,
    // What is wrong in our sources by these options is no fault of what was written.
    maxBuffer: 64 * 1024 * 1024,
  }).catch((error: { stdout: string }) => error)
  return stdout.split('\n').filter((line) => /^[^.\s].*: error TS/.test(line))
}

export interface SuiteResult {
  readonly passed: number
  readonly failed: readonly string[]
}

/**
 * Runs the tests in a folder by a vitest of their own. From the clone's root: there a snapshot of the database is.
 *
 * @returns by the path of the file, from that folder on
 */
export async function suiteResults(
  folder: string,
  { conditions, workers }: { conditions: readonly string[]; workers: number },
): Promise<ReadonlyMap<string, SuiteResult>> {
  const config = join(folder, 'vitest.config.mjs')
  const outputFile = join(folder, 'results.json')
  // As in vitest.config.ts: vitest hands them on to Node, which can't load what @opentelemetry/api has for `module`.
  const resolve = { conditions: [...conditions, 'node', 'development|production'] }
  const ssr = { resolve: { ...resolve, externalConditions: [...conditions, 'node'] } }
  const execArgv = conditions.map((condition) => `--conditions=${condition}`)
  // What a host's runner has is too little for a machine that is busy with other tests.
  const timeouts = { testTimeout: 180_000, hookTimeout: 180_000 }
  const pool = { pool: 'threads', isolate: false, maxWorkers: workers, execArgv, ...timeouts }
  const test = { ...pool, reporters: ['json'], outputFile }
  await writeFile(config, `export default ${JSON.stringify({ root: folder, resolve, ssr, test })}\n`)
  const vitest = join(PACKAGE, 'node_modules/vitest/vitest.mjs')
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, NO_COLOR: '1' }
  const ended = await promisify(execFile)(process.execPath, [vitest, 'run', '--config', config], { cwd: PACKAGE, env })
    .then(({ stderr }) => stderr)
    // Tests that fail end it with 1, and leave their report nevertheless.
    .catch((error: Error) => error.message)
  const report = await readFile(outputFile, 'utf8').catch((cause: unknown) => {
    throw new Error(`vitest left no report: ${ended}`, { cause })
  })
  const { testResults } = JSON.parse(report) as {
    testResults: { name: string; message: string; assertionResults: { status: string; fullName: string }[] }[]
  }
  return new Map(
    testResults.map(({ name, message, assertionResults: tests }) => {
      const failed = tests
        .filter(({ status }) => status !== 'passed' && status !== 'todo')
        .map(({ fullName }) => fullName)
      const passed = tests.filter(({ status }) => status === 'passed').length
      return [relative(folder, name), { passed, failed: message === '' ? failed : [...failed, message] }]
    }),
  )
}
