/** What a host's editor shows: the names of the surface and no more, each with a sentence and an example. */
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FILE = `${ROOT}test/house/hovered-host.ts`
const TEXT = `import { createIntegrations } from 'durable-integrations'
const integrations = createIntegrations()
const integration = await integrations.get(7)
integrations.;
integration.;
integrations.webhooks.;
integrations.syncs.;
integrations.oauth.;
`
/** A host as a stranger writes it. */
const HOST = `${ROOT}test/house/public-host.ts`
/** What a host's code does with its integrations. What only operators do is behind `admin`. */
const SURFACE = [
  ...['create', 'find', 'get', 'list', 'update', 'delete', 'erase', 'enable', 'disable', 'on', 'off', 'register'],
  ...['transaction', 'trackTransactions', 'ready', 'close', 'migrate', 'config', 'webhooks', 'syncs', 'oauth', 'admin'],
]

const service = languageService()

function completed(line: string): readonly string[] {
  const at = TEXT.indexOf(`\n${line}`) + 1 + line.length
  return (service.getCompletionsAtPosition(FILE, at, {})?.entries ?? []).map(({ name }) => name)
}

function shown(line: string, name: string): { readonly sentence: string; readonly example: string } {
  const at = TEXT.indexOf(`\n${line}`) + 1 + line.length
  const details = service.getCompletionEntryDetails(FILE, at, name, {}, undefined, {}, undefined)
  const example = details?.tags?.find((tag) => tag.name === 'example')
  return {
    sentence: ts.displayPartsToString(details?.documentation),
    example: ts.displayPartsToString(example?.text),
  }
}

/** The first question reads all types: ten seconds on a quiet machine of two cores. */
const FIRST_MS = 120_000

describe('an editor', () => {
  it(
    'completes the names of the surface, and no more',
    () => {
      expect([...completed('integrations.')].sort()).toEqual([...SURFACE].sort())
    },
    FIRST_MS,
  )

  it.each(SURFACE)('shows a sentence and an example at integrations.%s', (name) => {
    const { sentence, example } = shown('integrations.', name)
    expect(sentence).toMatch(/\w+ .*\./s)
    expect(example).not.toBe('')
  })

  it.each(['webhooks', 'syncs', 'oauth'])('shows a sentence at each name of integrations.%s', (part) => {
    const names = completed(`integrations.${part}.`)
    expect(names.length).toBeGreaterThan(2)
    expect(names.filter((name) => shown(`integrations.${part}.`, name).sentence === '')).toEqual([])
  })

  it('shows a sentence and an example at each method of an integration', () => {
    const program = service.getProgram()
    const names = completed('integration.')
    expect(names).toContain('request')
    const without = names.filter((name) => {
      const { sentence, example } = shown('integration.', name)
      return sentence === '' || (isMethod(program, name) && example === '')
    })
    expect(without).toEqual([])
  })
})

describe('a host', () => {
  const source = service.getProgram()?.getSourceFile(HOST) as ts.SourceFile

  it('compiles with strict, by the public entries alone, and writes no type at a member of its provider', () => {
    expect(service.getProgram()?.getCompilerOptions().strict).toBe(true)
    const faults = [...service.getSyntacticDiagnostics(HOST), ...service.getSemanticDiagnostics(HOST)]
    expect(faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))).toEqual([])
    const imported = source.statements.filter(ts.isImportDeclaration).map(({ moduleSpecifier: from }) => from.getText())
    expect(imported.filter((from) => !/^'(durable-integrations(\/\w+)?|zod)'$/.test(from))).toEqual([])
    const [provider] = found(source, ts.isCallExpression, (call) => call.expression.getText() === 'defineProvider')
    expect(found(provider as ts.Node, ts.isFunctionLike).length).toBeGreaterThan(10)
    const written = found(provider as ts.Node, ts.isFunctionLike).flatMap((each) => [
      ...each.parameters.filter(({ type }) => type !== undefined).map((parameter) => parameter.getText()),
      ...(each.type === undefined ? [] : [each.getText().slice(0, 60)]),
    ])
    expect(written).toEqual([])
  })

  it.each(['createIntegrations', 'defineProvider', 'createApi', 'createWorkers'])(
    'is shown a sentence and an example at %s',
    (name) => {
      const [used] = found(source, ts.isCallExpression, (call) => call.expression.getText() === name)
      const info = service.getQuickInfoAtPosition(HOST, used?.getStart() ?? 0)
      expect(ts.displayPartsToString(info?.documentation)).toMatch(/\w+ .*\./s)
      expect(ts.displayPartsToString(info?.tags?.find((tag) => tag.name === 'example')?.text)).not.toBe('')
    },
  )
})

/** All nodes of a kind below one, in their order. */
function found<Node extends ts.Node>(
  below: ts.Node,
  isOfKind: (node: ts.Node) => node is Node,
  isMeant: (node: Node) => boolean = () => true,
): Node[] {
  const nodes: Node[] = []
  const look = (node: ts.Node): void => {
    if (isOfKind(node) && isMeant(node)) nodes.push(node)
    ts.forEachChild(node, look)
  }
  ts.forEachChild(below, look)
  return nodes
}

function isMethod(program: ts.Program | undefined, name: string): boolean {
  const file = program?.getSourceFile(`${ROOT}src/providers/integration.ts`)
  const found = file?.statements.find(
    (each): each is ts.InterfaceDeclaration => ts.isInterfaceDeclaration(each) && each.name.text === 'Integration',
  )
  return found?.members.some((member) => ts.isMethodSignature(member) && member.name.getText() === name) ?? false
}

function languageService(): ts.LanguageService {
  const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: ['package.json'] }, ts.sys, ROOT)
  return ts.createLanguageService({
    ...ts.sys,
    getCompilationSettings: () => options,
    getScriptFileNames: () => [FILE, HOST],
    getScriptVersion: () => '1',
    getScriptSnapshot: (path) => {
      const text = path === FILE ? TEXT : ts.sys.readFile(path)
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text)
    },
    useCaseSensitiveFileNames: () => ts.sys.useCaseSensitiveFileNames,
    getCurrentDirectory: () => ROOT,
    getDefaultLibFileName: ts.getDefaultLibFilePath,
  })
}
