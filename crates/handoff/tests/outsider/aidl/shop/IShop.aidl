package shop;

import shop.IBuyer;
import shop.Order;

interface IShop {
    int price(in Order order);
    oneway void order(in Order order, IBuyer buyer);
    ParcelFileDescriptor receipt(in Order order);
}
