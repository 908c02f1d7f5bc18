/** The types of ours that the signatures of the package's entries name, found by the compiler. */
import ts from 'typescript'

export interface PublicTypes {
  /** Names of all that a signature leads to. */
  readonly reached: readonly string[]
  /** Those of them that no entry exports, as `Name (file), by Owner`. */
  readonly unnamed: readonly string[]
}

/** A reader sees the members that they leave, and not what they are made of. */
const COMPUTED = new Set(['Pick', 'Omit', 'Partial', 'Required'])
/** Of what they name a reader sees less still. */
const DERIVED = new Set(['Parameters', 'ConstructorParameters', 'ReturnType', 'Awaited', 'Exclude', 'Extract'])

/** @param entries files of the program; @param root of the repository, with a slash at its end */
export function publicTypes(program: ts.Program, entries: readonly string[], root: string): PublicTypes {
  const checker = program.getTypeChecker()
  const exported = new Set(
    entries.flatMap((entry) => {
      const source = program.getSourceFile(entry)
      const module = source && checker.getSymbolAtLocation(source)
      return module === undefined ? [] : checker.getExportsOfModule(module).map(target)
    }),
  )
  const reached = new Map<ts.Symbol, string | null>([...exported].map((symbol) => [symbol, null]))
  // Grows while it is walked.
  for (const symbol of reached.keys())
    for (const declaration of symbol.declarations ?? [])
      if (isOurs(declaration))
        visit(declaration, (name) => {
          const found = checker.getSymbolAtLocation(name)
          const type = found && target(found)
          if (type === undefined || reached.has(type) || !isType(type)) return
          reached.set(type, symbol.name)
        })

  const own = [...reached].filter(([symbol, by]) => by !== null && isNameable(symbol) && !exported.has(symbol))
  return {
    reached: [...reached.keys()].map(({ name }) => name),
    unnamed: own.map(([symbol, by]) => `${symbol.name} (${fileOf(symbol)}), by ${by}`).sort(),
  }

  /** Calls back with each name of a type in a declaration's signature: no bodies, no values, nothing private. */
  function visit(node: ts.Node, reach: (name: ts.Node) => void): void {
    if (ts.isBlock(node) || isPrivate(node)) return
    if (ts.isTypeReferenceNode(node)) {
      const { text: name } = node.typeName as ts.Identifier
      if (COMPUTED.has(name)) members(checker.getTypeFromTypeNode(node))
      if (COMPUTED.has(name) || DERIVED.has(name)) return
      reach(node.typeName)
    } else if (ts.isIndexedAccessTypeNode(node)) return
    else if (ts.isImportTypeNode(node) && node.qualifier !== undefined) reach(node.qualifier)
    else if (ts.isHeritageClause(node)) {
      for (const base of node.types) members(checker.getTypeAtLocation(base))
      return
    } else if (isUnannotated(node)) for (const name of namesIn(checker.getTypeAtLocation(node))) reach(name)
    ts.forEachChild(node, (child) => {
      if (!ts.isExpression(child)) visit(child, reach)
    })

    function members(type: ts.Type): void {
      for (const { declarations } of type.getProperties())
        for (const declaration of declarations ?? []) if (isOurs(declaration)) visit(declaration, reach)
    }
  }

  /** Names of the types that the compiler finds for a function, a member or a constant without an annotation. */
  function namesIn(type: ts.Type, depth = 0): ts.Node[] {
    const parts = [
      ...type.getCallSignatures().map((signature) => signature.getReturnType()),
      ...(type.isUnionOrIntersection() ? type.types : []),
      ...checker.getTypeArguments(type as ts.TypeReference),
    ]
    const declared = (type.aliasSymbol ?? type.symbol)?.declarations ?? []
    const names = declared.filter(isDeclaredType).map(({ name }) => name as ts.Node)
    return depth > 3 ? names : [...names, ...parts.flatMap((part) => namesIn(part, depth + 1))]
  }

  function target(symbol: ts.Symbol): ts.Symbol {
    return (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol)
  }

  function isType(symbol: ts.Symbol): boolean {
    return (symbol.declarations ?? []).some((declaration) => isOurs(declaration) && isDeclaredType(declaration))
  }

  function isOurs(declaration: ts.Node): boolean {
    return declaration.getSourceFile().fileName.startsWith(`${root}src/`)
  }

  function fileOf({ declarations }: ts.Symbol): string | undefined {
    return declarations?.[0]?.getSourceFile().fileName.slice(root.length)
  }
}

/** A shorthand that its own file keeps to itself stands for what is in it. */
function isNameable({ declarations }: ts.Symbol): boolean {
  return (declarations ?? []).some(
    (declaration) =>
      (ts.getCombinedModifierFlags(declaration as ts.Declaration) & ts.ModifierFlags.Export) !== 0 ||
      !ts.isTypeAliasDeclaration(declaration),
  )
}

function isDeclaredType(
  node: ts.Node,
): node is ts.InterfaceDeclaration | ts.TypeAliasDeclaration | ts.ClassDeclaration | ts.EnumDeclaration {
  return (
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isEnumDeclaration(node)
  )
}

function isUnannotated(node: ts.Node): boolean {
  const mayBe =
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isVariableDeclaration(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isGetAccessorDeclaration(node)
  return mayBe && node.type === undefined
}

function isPrivate(node: ts.Node): boolean {
  const { name } = node as { name?: ts.Node }
  if (name !== undefined && ts.isPrivateIdentifier(name)) return true
  return (
    ts.canHaveModifiers(node) &&
    ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword) === true
  )
}
