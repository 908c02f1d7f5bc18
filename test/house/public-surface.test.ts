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
`
const SURFACE = [
  ...['create', 'find', 'get', 'list', 'update', 'delete', 'enable', 'disable', 'on', 'off', 'register'],
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
    getScriptFileNames: () => [FILE],
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
