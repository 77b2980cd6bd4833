package shop;

import shop.Order;

oneway interface IBuyer {
    void ready(in Order order);
}
