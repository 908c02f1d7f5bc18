/** The names of the host's models that have no type of their own. Rule: docs/behaviour/mappings.md, "Models". */

/** Models whose type is not chosen yet, with what chooses it. The host names such a model by the key under which it registers it. */
const UNNAMED = new WeakMap<object, (type: string) => void>()

/** @param choose sets the model's `type`; called once at most */
export function unnamed<Model extends object>(model: Model, choose: (type: string) => void): Model {
  UNNAMED.set(model, choose)
  return model
}

export function isUnnamed(model: object): boolean {
  return UNNAMED.has(model)
}

/** Registers a model under its name: one without a type of its own has this one from now on. */
export function nameModel(model: object, type: string): void {
  UNNAMED.get(model)?.(type)
  UNNAMED.delete(model)
}
