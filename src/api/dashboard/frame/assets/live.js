// @ts-check
/* Live: the page's main part again whenever it has changed. Stands behind dashboard.js, whose names it uses. Rule: docs/behaviour/dashboard.md, "Live". */

const page = location.pathname.slice(root.length) + location.search
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy('dashboard', {
  createHTML: (/** @type {string} */ text) => text,
})
let isPaused = kept.get('live') === 'paused'
/** @type {EventSource | null} */
let source = null
/** @type {string | null} What came while text was selected. */
let held = null
const live = main.hasAttribute('data-live') ? button('', () => pause(!isPaused)) : null

/** @param {boolean} isNow */
function pause(isNow) {
  isPaused = isNow
  kept.set('live', isPaused ? 'paused' : 'on')
  follow()
}

/** @param {string} text */
function sayLive(text) {
  if (live === null) return
  live.textContent = text
  live.setAttribute('aria-pressed', String(source !== null))
}

/** Follows the page while it is looked at. */
function follow() {
  source?.close()
  source = null
  if (live === null) return
  if (isPaused || document.hidden) return sayLive('Live: paused')
  const address = `${root}/live?page=${encodeURIComponent(page)}`
  source = new EventSource(address)
  sayLive('Live: on')
  source.addEventListener('open', () => sayLive('Live: on'))
  source.addEventListener('main', (event) => show(event.data))
  source.addEventListener('end', (event) => {
    source?.close()
    source = null
    sayLive(event.data === 'done' ? 'Live: done' : 'Live: ended')
    // Signed out: the server leads to the page for that.
    if (event.data === '302' || event.data === '401') location.reload()
  })
  source.addEventListener('error', () => {
    if (source?.readyState !== EventSource.CLOSED) return sayLive('Live: connecting')
    source = null
    sayLive('Live: not reached')
    setTimeout(() => source === null && follow(), 15_000)
    leaveIfSignedOut(address)
  })
}

/** A closed source does not say why: the session may have ended, as in a tab that was hidden. @param {string} address */
function leaveIfSignedOut(address) {
  const asked = new AbortController()
  fetch(address, { redirect: 'manual', signal: asked.signal }).then(
    ({ status, type }) => {
      asked.abort()
      if (status === 401 || type === 'opaqueredirect') location.reload()
    },
    () => {},
  )
}

/** @param {string} text of the new main part */
function show(text) {
  const selection = getSelection()
  if (selection !== null && !selection.isCollapsed && main.contains(selection.anchorNode)) {
    held = text
    return
  }
  held = null
  const next = new DOMParser().parseFromString(policy === undefined ? text : policy.createHTML(text), 'text/html')
  const content = next.querySelector('main')
  if (content !== null) become(main, content)
  dress()
}

document.addEventListener('selectionchange', () => {
  if (held !== null && getSelection()?.isCollapsed) show(held)
})

/** A row is known by its first link, others by an id. Null: one of many. @param {Node} node */
function nameOf(node) {
  if (!(node instanceof Element)) return null
  if (node.localName === 'tr') return node.querySelector('a[href]')?.getAttribute('href') ?? null
  return node.id || null
}

/** Finds the old child that a new one updates. One without a name never matches beyond one with a name, which would be lost. @param {Node | null} at @param {Node} child @param {(node: Node) => Node | null} after */
function sameAs(at, child, after) {
  const name = nameOf(child)
  for (let node = at; node !== null; node = after(node)) {
    if (node.nodeName === child.nodeName && nameOf(node) === name) return node
    if (name === null && nameOf(node) !== null) return null
  }
  return null
}

/** @param {Node} node */
const isOurs = (node) =>
  node instanceof Element && (node.hasAttribute('data-added') || node.matches('.notice[role=status]'))

/** @param {HTMLElement} form */
const isTouched = (form) =>
  all('input, textarea, select', form).some((field) =>
    field instanceof HTMLSelectElement
      ? field.selectedIndex !==
        Math.max(
          [...field.options].findIndex(({ defaultSelected }) => defaultSelected),
          0,
        )
      : field instanceof HTMLInputElement && field.type === 'checkbox'
        ? field.checked !== field.defaultChecked
        : /** @type {HTMLInputElement} */ (field).value !== /** @type {HTMLInputElement} */ (field).defaultValue,
  )

/**
 * Changes what differs and nothing else, so that scroll, focus, what is open and what is typed stay.
 *
 * @param {Element} old @param {Element} next
 */
function become(old, next) {
  // What is half filled in is its reader's. What is on its way keeps its id, and is not sent again.
  if (old instanceof HTMLFormElement && (old.dataset.sent !== undefined || isTouched(old))) return
  for (const { name } of [...old.attributes])
    if (!next.hasAttribute(name) && !(name === 'open' && old.localName === 'details')) old.removeAttribute(name)
  for (const { name, value } of [...next.attributes])
    if (old.getAttribute(name) !== value && !(name === 'open' && old.localName === 'details'))
      old.setAttribute(name, value)
  let at = [...old.childNodes].find((node) => !isOurs(node)) ?? null
  const after = (/** @type {Node} */ node) => {
    let following = node.nextSibling
    while (following !== null && isOurs(following)) following = following.nextSibling
    return following
  }
  for (const child of [...next.childNodes]) {
    const same = sameAs(at, child, after)
    if (same === null) {
      old.insertBefore(child, at)
      continue
    }
    while (at !== null && at !== same) {
      const gone = at
      at = after(at)
      old.removeChild(gone)
    }
    if (same instanceof Element && child instanceof Element) become(same, child)
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue
    at = after(same)
  }
  while (at !== null) {
    const gone = at
    at = after(at)
    old.removeChild(gone)
  }
}

if (live !== null) document.querySelector('[data-switches]')?.prepend(live)
ACTS['.'] = () => pause(!isPaused)
document.addEventListener('visibilitychange', follow)
follow()
