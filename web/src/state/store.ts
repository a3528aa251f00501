// A value that parts of the page watch. Setting the same value again wakes nobody.
import { useEffect, useState } from 'preact/hooks'

export class Store<T> {
  private value: T
  private readonly watchers = new Set<() => void>()

  constructor(value: T) {
    this.value = value
  }

  get(): T {
    return this.value
  }

  set(value: T): void {
    if (Object.is(value, this.value)) return
    this.value = value
    for (const watcher of [...this.watchers]) watcher()
  }

  update(change: (value: T) => T): void {
    this.set(change(this.value))
  }

  watch(watcher: () => void): () => void {
    this.watchers.add(watcher)
    return () => void this.watchers.delete(watcher)
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.get())
  useEffect(() => {
    // It may have changed between the first drawing and now.
    setValue(() => store.get())
    return store.watch(() => setValue(() => store.get()))
  }, [store])
  return value
}
