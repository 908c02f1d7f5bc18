/** The TypeScript in the pages, as files that the compiler can look at. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

export interface CodeBlock {
  /** Of the repository's root, `docs/testing.md`. */
  readonly page: string
  /** Of the block's first line in the page, from 1. */
  readonly line: number
  readonly code: string
}

/** What the compiler is given for a block. */
export interface BlockFile {
  readonly block: CodeBlock
  /** Of the repository's root. No such file is there: it exists for the compiler only. */
  readonly path: string
  readonly text: string
  /** Lines that stand before the block's own. */
  readonly added: number
}

const FENCE = /^```ts\b[^\n]*\n([\s\S]*?)^```/gm
/** A block that begins so is what the page's other blocks import under that name. */
const FILE_NAME = /^\/\/ (\S+\.ts)\n/

export function pagesOf(root: string): string[] {
  const folders = ['.', 'docs', 'docs/behaviour', 'docs/decisions', 'docs/tutorials', 'sandbox', ...examples(root)]
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )
}

function examples(root: string): string[] {
  return readdirSync(join(root, 'examples'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `examples/${entry.name}`)
}

export function blocksOf(root: string, page: string): CodeBlock[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(FENCE)].map((match) => ({
    page,
    line: text.slice(0, match.index).split('\n').length + 1,
    code: match[1] ?? '',
  }))
}

/**
 * A page's blocks, each a module. What a block names and does not declare is imported for it: from another block of the page,
 * else from the entry of the package that exports it. A block that names its file is complete: nothing is added to it. Members of a
 * class that stand alone are put into one.
 *
 * @param entryOf the entry of the package by the name that it exports
 */
export function filesOf(blocks: readonly CodeBlock[], entryOf: ReadonlyMap<string, string>): BlockFile[] {
  const modules = blocks.map((block, index) => moduleOf(block, index))
  const declaredIn = new Map<string, string>()
  // Of two blocks that declare a name the first counts.
  for (const { name, own } of modules.toReversed())
    for (const declared of own.declared) declaredIn.set(declared, `./${name}`)
  return modules.map(({ block, name, isMembers, isFile, own, used }) => {
    const imports: string[] = []
    for (const identifier of isFile ? [] : used) {
      if (own.all.has(identifier)) continue
      const from = declaredIn.get(identifier) ?? entryOf.get(identifier)
      if (from !== undefined) imports.push(`import { ${identifier} } from '${from}'`)
    }
    const exported = [...own.declared].filter((declared) => !own.exported.has(declared))
    // On one line, so that a diagnostic's line is easily told.
    const head = `${imports.join('; ')}; export {};${isMembers ? ' export class OfThePage extends HostClass {' : ''}\n`
    const tail = isMembers ? '}\n' : exported.length > 0 ? `export { ${exported.join(', ')} }\n` : ''
    const path = `docs/.code/${block.page.replace(/\W/g, '-')}/${name}`
    return { block, path, text: head + block.code + tail, added: 1 }
  })
}

function moduleOf(block: CodeBlock, index: number) {
  const isMembers = !parses(block.code) && parses(inClass(block.code))
  const parsed = parse(isMembers ? inClass(block.code) : block.code)
  const file = FILE_NAME.exec(block.code)?.[1]
  const name = file ?? `block-${index + 1}.ts`
  const none = { all: new Set<string>(), declared: new Set<string>(), exported: new Set<string>() }
  return {
    block,
    name,
    isMembers,
    isFile: file !== undefined,
    own: isMembers ? none : declarationsOf(parsed),
    used: identifiersOf(parsed),
  }
}

function inClass(code: string): string {
  return `class OfThePage {\n${code}\n}`
}

function parse(code: string): ts.SourceFile {
  return ts.createSourceFile('block.ts', code, ts.ScriptTarget.ESNext, true)
}

function parses(code: string): boolean {
  const { diagnostics = [] } = ts.transpileModule(code, {
    reportDiagnostics: true,
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ESNext },
  })
  return diagnostics.length === 0
}

function identifiersOf(file: ts.SourceFile): Set<string> {
  const names = new Set<string>()
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) names.add(node.text)
    ts.forEachChild(node, visit)
  }
  visit(file)
  return names
}

/** Of the top level. */
function declarationsOf(file: ts.SourceFile): { all: Set<string>; declared: Set<string>; exported: Set<string> } {
  const declared = new Set<string>()
  const exported = new Set<string>()
  const imported = new Set<string>()
  const bind = (name: ts.BindingName, into: Set<string>[]): void => {
    if (ts.isIdentifier(name)) for (const names of into) names.add(name.text)
    else for (const element of name.elements) if (ts.isBindingElement(element)) bind(element.name, into)
  }
  for (const statement of file.statements) {
    const isExported =
      ts.canHaveModifiers(statement) &&
      (ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false)
    const into = isExported ? [declared, exported] : [declared]
    if (ts.isVariableStatement(statement))
      for (const { name } of statement.declarationList.declarations) bind(name, into)
    else if (
      (ts.isClassDeclaration(statement) ||
        ts.isFunctionDeclaration(statement) ||
        ts.isInterfaceDeclaration(statement) ||
        ts.isTypeAliasDeclaration(statement)) &&
      statement.name !== undefined
    )
      bind(statement.name, into)
    else if (ts.isImportDeclaration(statement)) {
      const bindings = statement.importClause?.namedBindings
      if (statement.importClause?.name !== undefined) imported.add(statement.importClause.name.text)
      if (bindings !== undefined && ts.isNamedImports(bindings))
        for (const { name } of bindings.elements) imported.add(name.text)
    }
  }
  return { all: new Set([...declared, ...imported]), declared, exported }
}
