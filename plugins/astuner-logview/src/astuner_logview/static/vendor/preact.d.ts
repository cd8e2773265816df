/** What our modules use of Preact 11. */
export type ComponentChildren = VNode<any> | object | string | number | bigint | boolean | null | undefined | ComponentChildren[];
export interface VNode<P = {}> {
  type: unknown;
  props: P & { children?: ComponentChildren };
  key: unknown;
}
export function h(type: unknown, props: object | null, ...children: ComponentChildren[]): VNode<any>;
export function Fragment(props: { children?: ComponentChildren }): ComponentChildren;
export function render(node: ComponentChildren, parent: Element): void;
