/**
 * Every block of TypeScript in the pages compiles, by the rules of this repository, against the package as it is; and what the
 * package's signatures name can be imported. One file: compiling the entries takes longer than looking at them.
 */
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { beforeAll, describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import type { BlockFile } from './docs-code.ts'
import { blocksOf, filesOf, pagesOf } from './docs-code.ts'
import type { PublicTypes } from './public-types.ts'
import { publicTypes } from './public-types.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** What a host or a provider's author has around the lines of a page. */
const SURROUNDINGS = ['names', 'modules'].map((what) => `${ROOT}test/house/docs-code-${what}.d.ts`)
const COMPILE_MS = 120_000

const { options: repository } = ts.parseJsonConfigFileContent(
  ts.readConfigFile(`${ROOT}tsconfig.json`, ts.sys.readFile).config,
  ts.sys,
  ROOT,
)
const OPTIONS: ts.CompilerOptions = {
  ...repository,
  noEmit: true,
  // A page shows what matters.
  noUnusedLocals: false,
  noUnusedParameters: false,
  noImplicitOverride: false,
  // Names are imported without asking whether they are types.
  verbatimModuleSyntax: false,
  isolatedModules: false,
}

const SOURCES = new Map<string, ts.SourceFile | undefined>()

/** Reads what is on the disk once for all programs. */
function sharedHost(): ts.CompilerHost {
  const host = ts.createCompilerHost(OPTIONS)
  const { getSourceFile } = host
  host.getSourceFile = (path, ...rest) => {
    if (!SOURCES.has(path)) SOURCES.set(path, getSourceFile(path, ...rest))
    return SOURCES.get(path)
  }
  return host
}

/** Types of a workflow's input and state are between it and its worker: a host only bundles them. */
const NOT_CALLED = 'durable-integrations/workflows'

interface Entries {
  /** By the name that an entry of the package exports. Of two entries the first counts. */
  readonly byName: ReadonlyMap<string, string>
  readonly types: PublicTypes
}

function entriesOfPackage(): Entries {
  const entries = Object.entries(packageJson.exports).flatMap(([name, target]) =>
    typeof target === 'string'
      ? []
      : [{ entry: `durable-integrations${name.slice(1)}`, file: ROOT + target['durable-source'].slice(2) }],
  )
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    OPTIONS,
    sharedHost(),
  )
  const checker = program.getTypeChecker()
  const byName = new Map<string, string>([['z', 'zod']])
  for (const { entry, file } of entries) {
    const source = program.getSourceFile(file)
    const symbol = source && checker.getSymbolAtLocation(source)
    for (const { name } of symbol === undefined ? [] : checker.getExportsOfModule(symbol))
      if (!byName.has(name)) byName.set(name, entry)
  }
  const called = entries.filter(({ entry }) => entry !== NOT_CALLED).map(({ file }) => file)
  return { byName, types: publicTypes(program, called, ROOT) }
}

/** Each fault as `page:line message`. */
function faultsOf(files: readonly BlockFile[]): string[] {
  const byPath = new Map(files.map((file) => [ROOT + file.path, file]))
  const host = sharedHost()
  const { fileExists, readFile, getSourceFile, directoryExists } = host
  host.fileExists = (path) => byPath.has(path) || fileExists(path)
  host.readFile = (path) => byPath.get(path)?.text ?? readFile(path)
  host.directoryExists = (path) => path.startsWith(`${ROOT}docs/.code`) || (directoryExists?.(path) ?? true)
  host.getSourceFile = (path, language, ...rest) => {
    const file = byPath.get(path)
    return file === undefined
      ? getSourceFile(path, language, ...rest)
      : ts.createSourceFile(path, file.text, language, true)
  }
  const program = ts.createProgram([...byPath.keys(), ...SURROUNDINGS], OPTIONS, host)
  return [...byPath].flatMap(([path, { block, added }]) => {
    const source = program.getSourceFile(path)
    const diagnostics = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
    return diagnostics.map(({ start = 0, messageText }) => {
      const line = block.line + (source?.getLineAndCharacterOfPosition(start).line ?? 0) - added
      return `${block.page}:${line} ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
    })
  })
}

const MADE_UP = 'docs/made-up.md'
const WRONG = [
  { page: MADE_UP, line: 10, code: "const wrong = createIntegrations({ datbase: 'postgres://' })\n" },
  { page: MADE_UP, line: 20, code: 'import { GoneProvider } from "durable-integrations"\n' },
  { page: MADE_UP, line: 30, code: 'ok()\nconst x = )\n' },
  { page: MADE_UP, line: 40, code: 'await integrations.create({ provider: 7 })\n' },
]

describe("the pages' code", () => {
  let blocks: number
  let faults: readonly string[]

  let types: PublicTypes

  beforeAll(() => {
    const { byName: entryOf, types: found } = entriesOfPackage()
    types = found
    const files = pagesOf(ROOT).flatMap((page) => filesOf(blocksOf(ROOT, page), entryOf))
    blocks = files.length
    faults = faultsOf([...files, ...filesOf(WRONG, entryOf)])
  }, COMPILE_MS)

  it('compiles', () => {
    expect(blocks).toBeGreaterThan(30)
    expect(faults.filter((fault) => !fault.startsWith(MADE_UP))).toEqual([])
  })

  it('can name each type of a public signature: an entry exports it', () => {
    expect(types.reached).toEqual(expect.arrayContaining(['CircuitView', 'HealthReport', 'OAuthLink', 'CreateRefund']))
    expect(types.unnamed).toEqual([])
  })

  it.each([
    [10, "'datbase' does not exist"],
    [20, "no exported member 'GoneProvider'"],
    [31, 'Expression expected'],
    [40, "'number' is not assignable to type 'string'"],
  ])('is looked at: what is wrong in line %d is told', (line, message) => {
    expect(faults.filter((fault) => fault.startsWith(`${MADE_UP}:${line} `)).join('; ')).toContain(message)
  })
})
